package simulated

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
	kindClaim     = "PersistentVolumeClaim"
	kindResource  = "ResourceClaim"
	// rootCA is the ConfigMap with the certificate authority of the server, which is in every pod. A
	// server without TLS has none, so pods do not wait for it.
	rootCA = "kube-root-ca.crt"
)

// A reading finds the objects that a pod refers to and that do not exist.
type reading struct {
	ctx    context.Context
	client client.Reader
	pod    *corev1.Pod
	err    error // of a read that has failed
}

// missing is the error for a missing object or key, in the words of a kubelet.
type missing struct{ message string }

func (m missing) Error() string { return m.message }

// refs returns the objects that a pod refers to.
func refs(p *corev1.Pod) []ref {
	var all []ref
	add := func(kind, name string) { all = append(all, ref{kind, p.Namespace, name}) }
	for i := range p.Spec.Volumes {
		volumeRefs(p, &p.Spec.Volumes[i], add)
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			containerRefs(&list[i], add)
		}
	}
	for i := range p.Spec.EphemeralContainers {
		c := corev1.Container(p.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		containerRefs(&c, add)
	}
	for name := range resourceclaim.PodClaims(p) {
		add(kindResource, name)
	}
	return all
}

func volumeRefs(p *corev1.Pod, v *corev1.Volume, add func(kind, name string)) {
	switch {
	case v.ConfigMap != nil:
		add(kindConfigMap, v.ConfigMap.Name)
	case v.Secret != nil:
		add(kindSecret, v.Secret.SecretName)
	case v.PersistentVolumeClaim != nil:
		add(kindClaim, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		add(kindClaim, p.Name+"-"+v.Name)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil && s.ConfigMap.Name != rootCA {
				add(kindConfigMap, s.ConfigMap.Name)
			}
			if s.Secret != nil {
				add(kindSecret, s.Secret.Name)
			}
		}
	}
}

func containerRefs(c *corev1.Container, add func(kind, name string)) {
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil {
			add(kindConfigMap, from.ConfigMapRef.Name)
		}
		if from.SecretRef != nil {
			add(kindSecret, from.SecretRef.Name)
		}
	}
	for _, env := range c.Env {
		if env.ValueFrom == nil {
			continue
		}
		if r := env.ValueFrom.ConfigMapKeyRef; r != nil {
			add(kindConfigMap, r.Name)
		}
		if r := env.ValueFrom.SecretKeyRef; r != nil {
			add(kindSecret, r.Name)
		}
	}
}

// needs returns the missing objects.
func (r *reading) needs() (needs, error) {
	var n needs
	for i := range r.pod.Spec.Volumes {
		if err := r.volume(&r.pod.Spec.Volumes[i]); err != nil {
			n.volumes = append(n.volumes, err.Error())
		}
	}
	if err := r.claims(); err != nil {
		n.claims = err.Error()
	}
	config := func(c *corev1.Container) {
		if err := r.config(c); err != nil {
			if n.config == nil {
				n.config = map[string]string{}
			}
			n.config[c.Name] = err.Error()
		}
	}
	for _, list := range [][]corev1.Container{r.pod.Spec.InitContainers, r.pod.Spec.Containers} {
		for i := range list {
			config(&list[i])
		}
	}
	for i := range r.pod.Spec.EphemeralContainers {
		c := corev1.Container(r.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		config(&c)
	}
	return n, r.err
}

// volume returns why a volume cannot be mounted.
func (r *reading) volume(v *corev1.Volume) error {
	var errs []string
	check := func(err error) {
		if err != nil {
			errs = append(errs, err.Error())
		}
	}
	switch {
	case v.PersistentVolumeClaim != nil:
		return r.claim(v.Name, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		return r.claim(v.Name, r.pod.Name+"-"+v.Name)
	case v.ConfigMap != nil:
		check(r.object(kindConfigMap, v.ConfigMap.Name, items(v.ConfigMap.Items), v.ConfigMap.Optional))
	case v.Secret != nil:
		check(r.object(kindSecret, v.Secret.SecretName, items(v.Secret.Items), v.Secret.Optional))
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil && s.ConfigMap.Name != rootCA {
				check(r.object(kindConfigMap, s.ConfigMap.Name, items(s.ConfigMap.Items), s.ConfigMap.Optional))
			}
			if s.Secret != nil {
				check(r.object(kindSecret, s.Secret.Name, items(s.Secret.Items), s.Secret.Optional))
			}
		}
	}
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return missing{fmt.Sprintf("MountVolume.SetUp failed for volume %q : %s", v.Name, errs[0])}
	}
	return missing{fmt.Sprintf("MountVolume.SetUp failed for volume %q : [%s]", v.Name, strings.Join(errs, ", "))}
}

func items(all []corev1.KeyToPath) []string {
	var keys []string
	for _, item := range all {
		keys = append(keys, item.Key)
	}
	return keys
}

// object returns why a ConfigMap or Secret cannot be used whose keys are needed.
func (r *reading) object(kind, name string, keys []string, optional *bool) error {
	has, err := r.keys(kind, name)
	if isSet(optional) && errors.As(err, &missing{}) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, key := range keys {
		if !has(key) && !isSet(optional) {
			return missing{"references non-existent " + map[string]string{kindConfigMap: "config", kindSecret: "secret"}[kind] + " key: " + key}
		}
	}
	return nil
}

// keys returns which keys a ConfigMap or Secret has.
func (r *reading) keys(kind, name string) (has func(key string) bool, err error) {
	key := client.Key(r.pod.Namespace, name)
	if kind == kindSecret {
		var s corev1.Secret
		if err := r.get(key, &s, fmt.Sprintf("secret %q not found", name)); err != nil {
			return nil, err
		}
		return func(key string) bool { return s.Data[key] != nil }, nil
	}
	var m corev1.ConfigMap
	if err := r.get(key, &m, fmt.Sprintf("configmap %q not found", name)); err != nil {
		return nil, err
	}
	return func(key string) bool {
		_, ok := m.Data[key]
		return ok || m.BinaryData[key] != nil
	}, nil
}

// get reads an object. absent is the error if there is none.
func (r *reading) get(key client.ObjectKey, o client.Object, absent string) error {
	err := r.client.Get(r.ctx, key, o, client.UnsafeDisableDeepCopy)
	if err != nil && client.IgnoreNotFound(err) == nil {
		return missing{absent}
	}
	if err != nil {
		r.err = err
	}
	return err
}

// config returns why the configuration of a container cannot be made.
func (r *reading) config(c *corev1.Container) error {
	for _, from := range c.EnvFrom {
		var err error
		switch {
		case from.ConfigMapRef != nil:
			err = r.object(kindConfigMap, from.ConfigMapRef.Name, nil, from.ConfigMapRef.Optional)
		case from.SecretRef != nil:
			err = r.object(kindSecret, from.SecretRef.Name, nil, from.SecretRef.Optional)
		}
		if err != nil {
			return err
		}
	}
	for _, env := range c.Env {
		if env.ValueFrom == nil {
			continue
		}
		var err error
		if k := env.ValueFrom.ConfigMapKeyRef; k != nil {
			err = r.variable(kindConfigMap, k.Name, k.Key, k.Optional)
		}
		if k := env.ValueFrom.SecretKeyRef; k != nil {
			err = r.variable(kindSecret, k.Name, k.Key, k.Optional)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) variable(kind, name, key string, optional *bool) error {
	has, err := r.keys(kind, name)
	switch {
	case isSet(optional) && (err == nil || errors.As(err, &missing{})):
		return nil
	case err != nil:
		return err
	case !has(key):
		return missing{fmt.Sprintf("couldn't find key %s in %s %s/%s", key, kind, r.pod.Namespace, name)}
	}
	return nil
}

// claim returns why the claim of a volume cannot be used.
func (r *reading) claim(volume, name string) error {
	var c corev1.PersistentVolumeClaim
	err := r.get(client.Key(r.pod.Namespace, name), &c, fmt.Sprintf("failed to fetch PVC from API server: persistentvolumeclaim %q not found", name))
	switch {
	case err != nil:
	case c.DeletionTimestamp != nil:
		err = missing{"PVC is being deleted"}
	case c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName == "":
		err = missing{"PVC is not bound"}
	default:
		return nil
	}
	return missing{fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[], failed to process volumes=[%[1]s]: error processing PVC %s/%s: %v", volume, r.pod.Namespace, name, err)}
}

// claims returns why the resource claims of the pod cannot be prepared.
func (r *reading) claims() error {
	for i := range r.pod.Spec.ResourceClaims {
		named, owned, err := resourceclaim.Name(r.pod, &r.pod.Spec.ResourceClaims[i])
		if err != nil {
			return err
		}
		if named == nil {
			continue
		}
		var c resourcev1.ResourceClaim
		if err := r.get(client.Key(r.pod.Namespace, *named), &c, fmt.Sprintf("fetch ResourceClaim %s: resourceclaims.resource.k8s.io %q not found", *named, *named)); err != nil {
			return err
		}
		if owned {
			if err := resourceclaim.IsForPod(r.pod, &c, false); err != nil {
				return err
			}
		}
		if !resourceclaim.IsReservedForPod(r.pod, &c, false) {
			return missing{fmt.Sprintf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)", r.pod.Name, r.pod.UID, *named, c.UID)}
		}
		if c.Status.Allocation == nil {
			return missing{fmt.Sprintf("ResourceClaim %s: claim is not allocated", *named)}
		}
	}
	return nil
}
