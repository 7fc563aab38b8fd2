package podautoscaler

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// selectors are the selectors of the targets of autoscalers, as they were read last. They show
// whether pods are scaled by more than one autoscaler.
type selectors struct {
	mu          sync.Mutex
	byNamespace map[string]map[string]labels.Selector // by the name of the autoscaler
}

func newSelectors() *selectors {
	return &selectors{byNamespace: map[string]map[string]labels.Selector{}}
}

// set keeps the selector of an autoscaler.
func (s *selectors) set(key types.NamespacedName, selector labels.Selector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byNamespace[key.Namespace] == nil {
		s.byNamespace[key.Namespace] = map[string]labels.Selector{}
	}
	s.byNamespace[key.Namespace][key.Name] = selector
}

// drop forgets the selector of an autoscaler.
func (s *selectors) drop(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.byNamespace[key.Namespace]
	delete(all, key.Name)
	if len(all) == 0 {
		delete(s.byNamespace, key.Namespace)
	}
}

// matching returns the autoscalers whose selectors match some of the pods of a namespace, sorted;
// at most two.
func (s *selectors) matching(namespace string, pods []*corev1.Pod) (keys []types.NamespacedName) {
	seen := map[string]bool{} // pods of one template have the same labels
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.byNamespace[namespace]
	names := map[string]bool{}
	for _, p := range pods {
		set := labels.Set(p.Labels)
		if seen[set.String()] {
			continue
		}
		seen[set.String()] = true
		for name, selector := range all {
			if !names[name] && selector.Matches(set) {
				names[name] = true
				keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
			}
		}
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return cmp.Compare(a.Name, b.Name) })
	return keys[:min(len(keys), 2)]
}
