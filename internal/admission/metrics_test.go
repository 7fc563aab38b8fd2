package admission_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/prometheus/client_golang/prometheus"
)

// TestMetrics checks what is counted: plugins by their names, if they have the step, and the steps.
func TestMetrics(t *testing.T) {
	m := admission.NewMetrics()
	var log []string
	refused := errors.New("refused")
	chain := admission.Chain{
		m.Timed("First", plugin{name: "a", log: &log}),
		m.Timed("Validator", validator{refused}),
		m.Timed("Skipped", plugin{name: "c", log: &log, skips: true}),
	}
	admitter := m.Steps(chain).Begin(&resource.Request{}, resource.OperationCreate)
	a := &resource.Admitted{Request: &resource.Request{}, Operation: resource.OperationCreate}
	for range 2 {
		if err := admitter.Mutate(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if err := admitter.Validate(t.Context(), a); !errors.Is(err, refused) {
		t.Fatalf("validate: %v", err)
	}
	if m.Steps(nil).Begin(&resource.Request{}, resource.OperationCreate) != nil {
		t.Error("a chain without plugins has an Admitter")
	}

	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, f := range families {
		for _, series := range f.Metric {
			var labels []string
			for _, l := range series.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			got[strings.TrimPrefix(f.GetName(), "apiserver_admission_")+" "+strings.Join(labels, " ")] = series.Histogram.GetSampleCount()
		}
	}
	want := map[string]uint64{
		"controller_admission_duration_seconds name=First operation=CREATE rejected=false type=admit":       2,
		"controller_admission_duration_seconds name=First operation=CREATE rejected=false type=validate":    1,
		"controller_admission_duration_seconds name=Validator operation=CREATE rejected=true type=validate": 1,
		"step_admission_duration_seconds operation=CREATE rejected=false type=admit":                        2,
		"step_admission_duration_seconds operation=CREATE rejected=true type=validate":                      1,
	}
	for series, n := range want {
		if got[series] != n {
			t.Errorf("%s: %d, want %d", series, got[series], n)
		}
		delete(got, series)
	}
	for series := range got {
		t.Errorf("%s is not expected", series)
	}
}

// A validator rejects everything, and does not mutate.
type validator struct{ err error }

func (validator) Handles(*resource.Request, resource.Operation) bool   { return true }
func (v validator) Validate(context.Context, *resource.Admitted) error { return v.err }
