package cluster

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const immutableMessage = "field is immutable when `immutable` is set"

func validateConfigMap(cm, old *corev1.ConfigMap) field.ErrorList {
	var all field.ErrorList
	if old != nil && rule.IsTrue(old.Immutable) {
		all = append(all, validateStillImmutable(cm.Immutable)...)
		all = append(all, validateUnchanged("data", cm.Data, old.Data)...)
		all = append(all, validateUnchanged("binaryData", cm.BinaryData, old.BinaryData)...)
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		path := field.NewPath("data").Key(key)
		all = append(all, rule.ValidateDataKey(key, path)...)
		if _, twice := cm.BinaryData[key]; twice {
			all = append(all, field.Invalid(path, key, "duplicate of key present in binaryData"))
		}
		size += len(cm.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(cm.BinaryData)) {
		all = append(all, rule.ValidateDataKey(key, field.NewPath("binaryData").Key(key))...)
		size += len(cm.BinaryData[key])
	}
	if size > corev1.MaxSecretSize {
		all = append(all, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return all
}

func validateSecret(s, old *corev1.Secret) field.ErrorList {
	var all field.ErrorList
	if old != nil {
		all = append(all, apivalidation.ValidateImmutableField(s.Type, old.Type, field.NewPath("type"))...)
		if rule.IsTrue(old.Immutable) {
			all = append(all, validateStillImmutable(s.Immutable)...)
			all = append(all, validateUnchanged("data", s.Data, old.Data)...)
		}
	}
	data := field.NewPath("data")
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		all = append(all, rule.ValidateDataKey(key, data.Key(key))...)
		size += len(s.Data[key])
	}
	if size > corev1.MaxSecretSize {
		all = append(all, field.TooLong(data, "", corev1.MaxSecretSize))
	}
	return append(all, validateSecretType(s, data)...)
}

// validateSecretType requires the keys of a secret's type.
func validateSecretType(s *corev1.Secret, data *field.Path) field.ErrorList {
	var all field.ErrorList
	require := func(keys ...string) {
		for _, key := range keys {
			if _, ok := s.Data[key]; !ok {
				all = append(all, field.Required(data.Key(key), ""))
			}
		}
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			all = append(all, field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	case corev1.SecretTypeDockercfg:
		require(corev1.DockerConfigKey)
		all = append(all, validateJSON(s.Data, corev1.DockerConfigKey, data)...)
	case corev1.SecretTypeDockerConfigJson:
		require(corev1.DockerConfigJsonKey)
		all = append(all, validateJSON(s.Data, corev1.DockerConfigJsonKey, data)...)
	case corev1.SecretTypeBasicAuth: // one of the two suffices
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		_, password := s.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			require(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			all = append(all, field.Required(data.Key(corev1.SSHAuthPrivateKey), ""))
		}
	case corev1.SecretTypeTLS:
		require(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return all
}

func validateJSON(data map[string][]byte, key string, path *field.Path) field.ErrorList {
	content, ok := data[key]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(content, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(path.Key(key), "<secret contents redacted>", err.Error())}
	}
	return nil
}

func validateStillImmutable(immutable *bool) field.ErrorList {
	if rule.IsTrue(immutable) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("immutable"), immutableMessage)}
}

func validateUnchanged(name string, now, before any) field.ErrorList {
	if reflect.DeepEqual(now, before) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath(name), immutableMessage)}
}
