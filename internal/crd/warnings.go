package crd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// finalizerWarnings returns warnings about new finalizers whose names are not qualified by a domain
// and path.
func finalizerWarnings(obj, old resource.Tree) []string {
	fresh := finalizersOf(obj)
	if len(fresh) == 0 {
		return nil
	}
	var before []string
	if old != nil {
		before = finalizersOf(old)
	}
	slices.Sort(fresh)
	var warnings []string
	for _, name := range slices.Compact(fresh) {
		if slices.Contains(before, name) {
			continue
		}
		warn := func(message string) {
			warnings = append(warnings, fmt.Sprintf("metadata.finalizers: %q: %s", name, message))
		}
		for _, message := range validation.IsQualifiedName(name) {
			warn(message)
		}
		switch {
		case strings.Contains(name, "/"), isStandardFinalizer(name):
		case strings.Contains(name, "."):
			warn("prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers")
		default:
			warn("prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
		}
	}
	return warnings
}

func isStandardFinalizer(name string) bool {
	switch name {
	case metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, string(corev1.FinalizerKubernetes):
		return true
	}
	return false
}

func finalizersOf(obj resource.Tree) []string {
	list, _ := metadataOf(obj)["finalizers"].([]any)
	var names []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			names = append(names, s)
		}
	}
	return names
}
