package validation

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// mostOfRule is the greatest estimated cost of one expression.
	mostOfRule = 10_000_000
	// mostOfSchema is the greatest estimated cost of all expressions of a schema.
	mostOfSchema = 100_000_000
	// mostShown is the maximum number of expensive rules that the error of a schema names.
	mostShown = 4
)

// totalCost is the estimated cost of all expressions of a schema.
type totalCost struct {
	sum       uint64
	expensive []ruleCost // those with a hundredth of mostOfSchema or more, the most expensive first
}

type ruleCost struct {
	at   *field.Path
	cost uint64
}

func (t *totalCost) observe(at *field.Path, cost uint64) {
	if t.sum += cost; t.sum < cost {
		t.sum = math.MaxUint64
	}
	if cost < mostOfSchema/100 {
		return
	}
	t.expensive = append(t.expensive, ruleCost{at, cost})
	slices.SortStableFunc(t.expensive, func(a, b ruleCost) int { return cmp.Compare(b.cost, a.cost) })
	t.expensive = t.expensive[:min(len(t.expensive), mostShown)]
}

// errors returns the errors of the schema at a path.
func (t *totalCost) errors(at *field.Path) (errs field.ErrorList) {
	if t.sum <= mostOfSchema {
		return nil
	}
	for _, r := range t.expensive {
		errs = append(errs, field.Forbidden(r.at, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
	}
	return append(errs, field.Forbidden(at, tooExpensive("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", t.sum, mostOfSchema)))
}

// tooExpensive returns the message for a cost beyond a limit.
func tooExpensive(what string, cost, limit uint64) string {
	excess := float64(cost) / float64(limit)
	factor := fmt.Sprintf("%.1fx", excess)
	switch {
	case excess > 100:
		factor = "more than 100x"
	case excess < 1.5: // not "1.0x"
		factor = fmt.Sprintf("%fx", excess)
	}
	return fmt.Sprintf("%s exceeds budget by factor of %s (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)", what, factor)
}

// product returns a*b, or the greatest number.
func product(a, b uint64) uint64 {
	if a != 0 && math.MaxUint64/a < b {
		return math.MaxUint64
	}
	return a * b
}
