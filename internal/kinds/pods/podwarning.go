package pods

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/storage"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// warnOfPod warns of valid fields that do not have the effect that they seem to have. After the
// create, it warns of addresses only.
func warnOfPod(obj, old resource.Tree) []string {
	if old != nil {
		return warnOfPodAddresses(obj, old)
	}
	pod := kind.Decoded[corev1.Pod](obj)
	return append(WarnOfHostname("the Pod's hostname")(obj, nil), podWarnings(&pod.ObjectMeta, &pod.Spec, nil)...)
}

// warnOfPodAddresses warns of addresses in a deprecated form. The status is checked only in writes
// to the status.
func warnOfPodAddresses(obj, old resource.Tree) []string {
	if equality.Semantic.DeepEqual(obj["status"], old["status"]) {
		return nil
	}
	var all []string
	for _, list := range []string{"podIPs", "hostIPs"} {
		for i, ip := range kind.Items(obj, "status", list) {
			all = append(all, storage.AddressWarnings(field.NewPath("status", list).Index(i).Child("ip"), kind.Text(ip, "ip"))...)
		}
	}
	return all
}

// WarnOfTemplate is warnOfPod for the pod template at a path. It warns on create and when the
// template changes.
func WarnOfTemplate(path ...string) func(obj, old resource.Tree) []string {
	return func(obj, old resource.Tree) []string {
		tree, _ := kind.Get(obj, path...).(resource.Tree)
		before, _ := kind.Get(old, path...).(resource.Tree)
		if tree == nil || old != nil && equality.Semantic.DeepEqual(tree, before) {
			return nil
		}
		template := kind.Decoded[corev1.PodTemplateSpec](tree)
		return podWarnings(&template.ObjectMeta, &template.Spec, field.NewPath(path[0], path[1:]...))
	}
}

// podWarnings returns the warnings for a pod, or for the pod template at a path.
func podWarnings(meta *metav1.ObjectMeta, spec *corev1.PodSpec, path *field.Path) []string {
	w := podWarner{meta: meta, spec: spec, path: path}
	w.placement()
	w.annotations()
	w.volumes()
	w.lists()
	w.containers()
	w.ports()
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		w.warn(w.at("spec", "terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	w.podTerms()
	w.addresses()
	return w.all
}

type podWarner struct {
	meta *metav1.ObjectMeta
	spec *corev1.PodSpec
	path *field.Path // nil for a pod
	all  []string
}

func (w *podWarner) at(names ...string) *field.Path {
	if w.path == nil {
		return field.NewPath(names[0], names[1:]...)
	}
	return w.path.Child(names[0], names[1:]...)
}

func (w *podWarner) warn(at *field.Path, format string, args ...any) {
	w.all = append(w.all, at.String()+": "+fmt.Sprintf(format, args...))
}

// oldNodeLabels are node labels that were renamed.
var oldNodeLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  `deprecated since v1.9`,
	"scheduler.alpha.kubernetes.io/preferAvoidPods": `deprecated since v1.22; use Taints and Tolerations instead`,
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

func (w *podWarner) placement() {
	for _, key := range slices.Sorted(maps.Keys(w.spec.NodeSelector)) {
		if message := oldNodeLabels[key]; message != "" {
			w.warn(w.at("spec", "nodeSelector").Key(key), "%s", message)
		}
	}
	if w.spec.Affinity != nil && w.spec.Affinity.NodeAffinity != nil {
		a, at := w.spec.Affinity.NodeAffinity, w.at("spec", "affinity", "nodeAffinity")
		if must := a.RequiredDuringSchedulingIgnoredDuringExecution; must != nil {
			for i := range must.NodeSelectorTerms {
				w.nodeTerm(&must.NodeSelectorTerms[i], false, at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Index(i))
			}
		}
		for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			w.nodeTerm(&a.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference, true,
				at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"))
		}
	}
	for i, c := range w.spec.TopologySpreadConstraints {
		at := w.at("spec", "topologySpreadConstraints").Index(i)
		if message := oldNodeLabels[c.TopologyKey]; message != "" {
			w.warn(at.Child("topologyKey"), "%s is %s", c.TopologyKey, message)
		}
		w.nullSelector(c.LabelSelector, at.Child("labelSelector"))
	}
}

func (w *podWarner) nodeTerm(term *corev1.NodeSelectorTerm, values bool, path *field.Path) {
	for i, e := range term.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		if message := oldNodeLabels[e.Key]; message != "" {
			w.warn(at.Child("key"), "%s is %s", e.Key, message)
		}
		for j, value := range e.Values {
			if !values {
				break
			}
			for _, problem := range kvalidation.IsValidLabelValue(value) {
				w.warn(at.Child("values").Index(j), "%s is invalid, %s", value, problem)
			}
		}
	}
}

func (w *podWarner) nullSelector(selector *metav1.LabelSelector, at *field.Path) {
	if selector == nil {
		w.warn(at, "a null labelSelector results in matching no pod")
	}
}

func (w *podWarner) podTerms() {
	if w.spec.Affinity == nil {
		return
	}
	for _, a := range []struct {
		name     string
		affinity *corev1.PodAffinity
	}{{"podAffinity", w.spec.Affinity.PodAffinity}, {"podAntiAffinity", (*corev1.PodAffinity)(w.spec.Affinity.PodAntiAffinity)}} {
		if a.affinity == nil {
			continue
		}
		at := w.at("spec", "affinity", a.name)
		for i, term := range a.affinity.RequiredDuringSchedulingIgnoredDuringExecution {
			w.nullSelector(term.LabelSelector, at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i).Child("labelSelector"))
		}
		for i, term := range a.affinity.PreferredDuringSchedulingIgnoredDuringExecution {
			w.nullSelector(term.PodAffinityTerm.LabelSelector, at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm", "labelSelector"))
		}
	}
}

func (w *podWarner) annotations() {
	for _, a := range []struct{ key, message string }{
		{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
		{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
		{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	} {
		w.annotation(a.key, a.message)
	}
}

func (w *podWarner) annotation(key, message string) {
	if _, ok := w.meta.Annotations[key]; ok {
		w.warn(w.at("metadata", "annotations").Key(key), "%s", message)
	}
}

// lists warns of duplicate and useless elements of lists.
func (w *podWarner) lists() {
	seen := map[string]bool{}
	for i, alias := range w.spec.HostAliases {
		if seen[alias.IP] {
			w.warn(w.at("spec", "hostAliases").Index(i).Child("ip"), "duplicate ip %q", alias.IP)
		}
		seen[alias.IP] = true
	}
	clear(seen)
	secrets := w.at("spec", "imagePullSecrets")
	for i, secret := range w.spec.ImagePullSecrets {
		if seen[secret.Name] {
			w.warn(secrets.Index(i).Child("name"), "duplicate name %q", secret.Name)
		}
		seen[secret.Name] = true
	}
	for i, secret := range w.spec.ImagePullSecrets {
		if secret.Name == "" {
			w.warn(secrets.Index(i).Child("name"), "invalid empty name %q", secret.Name)
		}
	}
	w.fractions(w.spec.Overhead, w.at("spec", "overhead"))
}

// fractions warns of quantities that are not whole bytes.
func (w *podWarner) fractions(list corev1.ResourceList, at *field.Path) {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if value, ok := list[name]; ok && value.MilliValue()%1000 != 0 {
			w.warn(at.Key(string(name)), "fractional byte value %q is invalid, must be an integer", value.String())
		}
	}
}

func (w *podWarner) addresses() {
	if config := w.spec.DNSConfig; config != nil {
		for i, server := range config.Nameservers {
			w.all = append(w.all, storage.AddressWarnings(w.at("spec", "dnsConfig", "nameservers").Index(i), server)...)
		}
	}
	for i, alias := range w.spec.HostAliases {
		w.all = append(w.all, storage.AddressWarnings(w.at("spec", "hostAliases").Index(i).Child("ip"), alias.IP)...)
	}
}
