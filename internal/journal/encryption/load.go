package encryption

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/kms/pkg/util"
	"sigs.k8s.io/yaml"
)

// most is the maximum size of the file, in bytes; a larger one is a mistake.
const most = 1 << 20

// parse validates the content of a file, and returns its settings. provide returns KMS providers.
func parse(file string, data []byte, provide func(*apiserver.KMSConfiguration) *provider) (*settings, error) {
	switch {
	case len(data) > most:
		return nil, fmt.Errorf("more than %d bytes", most)
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New("the file is empty")
	}
	config, err := decode(data)
	if err != nil {
		return nil, err
	}
	s, err := newSettings(config, provide)
	if err != nil {
		return nil, err
	}
	for _, w := range append(exposed(file), sharedNames(config)...) {
		s.warnings = append(s.warnings, fmt.Sprintf("encryption configuration %s: %s", file, w))
	}
	return s, nil
}

// exposed returns a warning if other users can read or write the file.
func exposed(file string) []string {
	if runtime.GOOS == "windows" { // has no such modes
		return nil
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm()&0o006 == 0 {
		return nil
	}
	return []string{fmt.Sprintf("mode %04o gives other users of this machine access to the keys: set it to 0600", info.Mode().Perm())}
}

// decode decodes a configuration, and returns all errors in it.
func decode(data []byte) (*apiserver.EncryptionConfiguration, error) {
	codecs, err := codecsOnce()
	if err != nil {
		return nil, err
	}
	decoded, kind, err := codecs.UniversalDecoder().Decode(data, nil, nil)
	switch {
	case kruntime.IsMissingKind(err): // its text would contain the whole file
		return nil, missing("Kind")
	case kruntime.IsMissingVersion(err):
		return nil, missing("apiVersion")
	case err != nil:
		return nil, err
	}
	if err := refuseMore(data); err != nil {
		return nil, err
	}
	config, ok := decoded.(*apiserver.EncryptionConfiguration)
	if !ok {
		return nil, fmt.Errorf("got unexpected config type: %v", kind)
	}
	problems := validation.ValidateEncryptionConfiguration(config, true)
	for _, p := range problems {
		if _, whole := p.BadValue.(apiserver.ProviderConfiguration); whole {
			p.BadValue = field.OmitValueType{} // would be printed as addresses
		}
	}
	return config, append(problems, checkKMS(config)...).ToAggregate()
}

var codecsOnce = sync.OnceValues(func() (serializer.CodecFactory, error) {
	scheme := kruntime.NewScheme()
	err := errors.Join(apiserver.AddToScheme(scheme), apiserverv1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict), err
})

// refuseMore rejects further documents after the first one, which the decoder ignores.
func refuseMore(data []byte) error {
	documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 0; ; {
		document, err := documents.Read()
		if err == io.EOF {
			return nil
		}
		var content any
		if err == nil {
			err = yaml.Unmarshal(document, &content)
		}
		if err != nil {
			return err
		}
		if content == nil { // only comments
			continue
		}
		if n++; n > 1 {
			return errors.New("the file has more than one document: put all rules into one")
		}
	}
}

// checkKMS returns the errors in KMS providers that kube-apiserver does not find, or finds later.
func checkKMS(config *apiserver.EncryptionConfiguration) field.ErrorList {
	var problems field.ErrorList
	for i, rule := range config.Resources {
		for j, provider := range rule.Providers {
			if provider.KMS == nil {
				continue
			}
			at := field.NewPath("resources").Index(i).Child("providers").Index(j).Child("kms")
			if provider.KMS.APIVersion == "v1" {
				problems = append(problems, field.Forbidden(at.Child("apiVersion"), "v1, the default, is not supported: must be v2"))
			}
			if path, err := util.ParseEndpoint(provider.KMS.Endpoint); err == nil && path == "" {
				problems = append(problems, field.Invalid(at.Child("endpoint"), provider.KMS.Endpoint, "has no path: must be unix:///PATH"))
			}
		}
	}
	return problems
}

// sharedNames returns warnings about keys whose ciphertexts cannot be distinguished.
func sharedNames(config *apiserver.EncryptionConfiguration) []string {
	var warnings []string
	for i, rule := range config.Resources {
		secrets := map[string]string{}
		warned := map[string]bool{}
		for _, p := range rule.Providers {
			provider, keys := keysOf(&p)
			for _, key := range keys {
				name := fmt.Sprintf("%s key %q", provider, key.Name)
				secret, seen := secrets[name]
				secrets[name] = key.Secret
				if seen && secret != key.Secret && !warned[name] {
					warned[name] = true
					warnings = append(warnings, fmt.Sprintf("resources[%d] has more than one %s: use a unique name for every key", i, name))
				}
			}
		}
	}
	return warnings
}

// A missing is an error about a missing field, in Kubernetes' words.
type missing string

func (m missing) Error() string { return "Object '" + string(m) + "' is missing" }
