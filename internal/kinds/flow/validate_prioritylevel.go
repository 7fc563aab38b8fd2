package flow

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/util/shufflesharding"
)

// preserveZero is the annotation by which v1beta3 keeps 0 shares.
const preserveZero = flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey

func validatePriorityLevelConfiguration(p, _ *flowcontrolv1.PriorityLevelConfiguration) (all field.ErrorList) {
	if _, ok := p.Annotations[preserveZero]; ok {
		all = append(all, field.Forbidden(field.NewPath("metadata", "annotations"), fmt.Sprintf("annotation '%s' is forbidden", preserveZero)))
	}
	spec, at := &p.Spec, field.NewPath("spec")
	exempt, limited := spec.Type == flowcontrolv1.PriorityLevelEnablementExempt, spec.Type == flowcontrolv1.PriorityLevelEnablementLimited
	if exempt != (p.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) {
		all = append(all, field.Invalid(at.Child("type"), spec.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	// Fields of another type are reported last, as in Kubernetes.
	var last field.ErrorList
	switch {
	case exempt && spec.Exempt != nil:
		all = append(all, validateShares(spec.Exempt.NominalConcurrencyShares, spec.Exempt.LendablePercent, nil, at.Child("exempt"))...)
	case !exempt && spec.Exempt != nil:
		last = append(last, field.Forbidden(at.Child("exempt"), ""))
	}
	switch {
	case limited && spec.Limited == nil:
		last = append(last, field.Required(at.Child("limited"), ""))
	case !limited && spec.Limited != nil:
		last = append(last, field.Forbidden(at.Child("limited"), ""))
	}
	if spec.Type == "" {
		last = append(last, field.Required(at.Child("type"), ""))
	} else {
		all = append(all, rule.Supported(at.Child("type"), spec.Type, flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited)...)
	}
	if spec.Limited != nil {
		problems, misplaced := validateLimitResponse(&spec.Limited.LimitResponse, at.Child("limited", "limitResponse"))
		if limited {
			all = append(all, validateLimited(spec.Limited, problems, at.Child("limited"))...)
		}
		last = append(last, misplaced...)
	}
	all = append(all, validateMandatoryLevel(p, at)...)
	all = append(all, validatePriorityLevelConfigurationStatus(p, nil)...)
	return append(all, last...)
}

func validateLimited(l *flowcontrolv1.LimitedPriorityLevelConfiguration, ofResponse field.ErrorList, at *field.Path) field.ErrorList {
	all := validateShares(l.NominalConcurrencyShares, nil, nil, at)
	all = append(all, ofResponse...)
	return append(all, validateShares(nil, l.LendablePercent, l.BorrowingLimitPercent, at)...)
}

// validateShares returns the errors of a level's shares, lending and borrowing.
func validateShares(shares, lends, borrows *int32, at *field.Path) (all field.ErrorList) {
	if shares != nil && *shares < 0 {
		all = append(all, field.Invalid(at.Child("nominalConcurrencyShares"), *shares, "must be a non-negative integer"))
	}
	if lends != nil && (*lends < 0 || *lends > 100) {
		all = append(all, field.Invalid(at.Child("lendablePercent"), *lends, "must be between 0 and 100, inclusive"))
	}
	if borrows != nil && *borrows < 0 {
		all = append(all, field.Invalid(at.Child("borrowingLimitPercent"), *borrows, "if specified, must be a non-negative integer"))
	}
	return all
}

func validateLimitResponse(r *flowcontrolv1.LimitResponse, at *field.Path) (all, last field.ErrorList) {
	queues := r.Type == flowcontrolv1.LimitResponseTypeQueue
	switch {
	case queues && r.Queuing == nil:
		last = append(last, field.Required(at.Child("queuing"), ""))
	case queues:
		all = append(all, validateQueuing(r.Queuing, at.Child("queuing"))...)
	case r.Queuing != nil:
		last = append(last, field.Forbidden(at.Child("queuing"), ""))
	}
	if r.Type == "" {
		return all, append(last, field.Required(at.Child("type"), ""))
	}
	return append(all, rule.Supported(at.Child("type"), r.Type, flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject)...), last
}

func validateQueuing(q *flowcontrolv1.QueuingConfiguration, at *field.Path) (all field.ErrorList) {
	const most = 10 * 1000 * 1000
	if q.QueueLengthLimit <= 0 {
		all = append(all, field.Invalid(at.Child("queueLengthLimit"), q.QueueLengthLimit, "must be positive"))
	}
	if q.Queues <= 0 {
		all = append(all, field.Invalid(at.Child("queues"), q.Queues, "must be positive"))
	} else if q.Queues > most {
		all = append(all, field.Invalid(at.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", most)))
	}
	hand := at.Child("handSize")
	if q.HandSize <= 0 {
		return append(all, field.Invalid(hand, q.HandSize, "must be positive"))
	}
	if q.HandSize > q.Queues {
		return append(all, field.Invalid(hand, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	}
	if shufflesharding.RequiredEntropyBits(int(q.Queues), int(q.HandSize)) > shufflesharding.MaxHashBits {
		all = append(all, field.Invalid(hand, q.HandSize,
			fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, shufflesharding.MaxHashBits)))
	}
	return all
}

// validateMandatoryLevel rejects changes of the mandatory levels, except of the exempt level's
// shares.
func validateMandatoryLevel(p *flowcontrolv1.PriorityLevelConfiguration, at *field.Path) field.ErrorList {
	for _, fixed := range bootstrap.MandatoryPriorityLevelConfigurations {
		if fixed.Name != p.Name {
			continue
		}
		spec, detail := p.Spec.DeepCopy(), "spec of '%s' must equal the fixed value"
		if p.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			spec.Exempt, detail = fixed.Spec.Exempt, "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
		}
		if !equality.Semantic.DeepEqual(spec, &fixed.Spec) {
			return field.ErrorList{field.Invalid(at, rule.AsInternal(p.Spec), fmt.Sprintf(detail, p.Name))}
		}
	}
	return nil
}

func validatePriorityLevelConfigurationStatus(p, _ *flowcontrolv1.PriorityLevelConfiguration) (all field.ErrorList) {
	seen := map[flowcontrolv1.PriorityLevelConfigurationConditionType]bool{}
	for i, c := range p.Status.Conditions {
		all = append(all, validateConditionType(c.Type, seen, field.NewPath("status", "conditions").Index(i).Child("type"))...)
	}
	return all
}
