package stages

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kwok "sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
)

// checkSteps returns an error for the first event of an unknown type, and for the first template
// that cannot be parsed.
func checkSteps(s *kwok.StageSpec) error {
	parse := newParser()
	if n := s.Next; n != nil {
		if err := checkEvent("spec.next.event", n.Event); err != nil {
			return err
		}
		if err := parse("spec.next.statusTemplate", n.StatusTemplate); err != nil {
			return err
		}
		for i := range n.Patches {
			if err := parse(fmt.Sprintf("spec.next.patches[%d].template", i), n.Patches[i].Template); err != nil {
				return err
			}
		}
	}
	for i := range s.Steps {
		step, field := &s.Steps[i], fmt.Sprintf("spec.steps[%d]", i)
		if err := checkEvent(field+".event", step.Event); err != nil {
			return err
		}
		if step.Patch != nil {
			if err := parse(field+".patch.template", step.Patch.Template); err != nil {
				return err
			}
		}
		if step.Apply != nil {
			if err := parse(field+".apply.template", step.Apply.Template); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkEvent(field string, e *kwok.StageEvent) error {
	if e == nil || e.Type == corev1.EventTypeNormal || e.Type == corev1.EventTypeWarning {
		return nil
	}
	return fmt.Errorf("%s.type is %q: must be %s or %s", field, e.Type, corev1.EventTypeNormal, corev1.EventTypeWarning)
}

// newParser returns a function that parses templates without executing them.
func newParser() func(field, text string) error {
	templates := gotpl.NewRenderer((&player{}).functions())
	return func(field, text string) error {
		// The library parses a template before it encodes the object, which fails here.
		_, err := templates.ToText(text, make(chan int))
		var parsed *json.UnsupportedTypeError
		if errors.As(err, &parsed) {
			return nil
		}
		return fmt.Errorf("%s: %w", field, withoutOutput(err))
	}
}

// verbs are those that the kind of a Stage must support.
var verbs = []string{"list", "watch"}

// missingVerb returns the first of the verbs that a resource does not support, "" if there is none.
func missingVerb(supported []string) string {
	for _, v := range verbs {
		if !slices.Contains(supported, v) {
			return v
		}
	}
	return ""
}
