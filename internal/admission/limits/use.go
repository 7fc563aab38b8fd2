package limits

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	resources "k8s.io/component-helpers/resource"
)

// A use has the requests and limits of an item of a type in LimitRanges.
type use struct {
	kind             corev1.LimitType
	requests, limits corev1.ResourceList
}

// ofPod returns the use of a pod as a whole.
func ofPod(pod *corev1.Pod) use {
	options := resources.PodResourcesOptions{ExcludeOverhead: true}
	return use{corev1.LimitTypePod, resources.PodRequests(pod, options), resources.PodLimits(pod, options)}
}

func (u use) judge(limit *corev1.LimitRangeItem) []error {
	return slices.Concat(u.atLeast(limit.Min), u.atMost(limit.Max), u.inProportion(limit.MaxLimitRequestRatio))
}

// each calls judge for each bounded resource, in the order of their names.
func (u use) each(bounds corev1.ResourceList, judge func(b bounded) error) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		b := bounded{name: name, kind: u.kind, bound: bounds[name]}
		b.request, b.requested = u.requests[name]
		b.limit, b.limited = u.limits[name]
		if err := judge(b); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// A bounded value is the use of one resource, and its bound.
type bounded struct {
	name                  corev1.ResourceName
	kind                  corev1.LimitType
	bound, request, limit quantity.Quantity
	requested, limited    bool
}

// values returns request, limit and bound as integers of one scale, the finest of the three.
func (b *bounded) values() (request, limit, bound int64) {
	request, limit, bound = b.request.Value(), b.limit.Value(), b.bound.Value()
	if request <= quantity.MaxMilliValue && limit <= quantity.MaxMilliValue && bound <= quantity.MaxMilliValue {
		return b.request.MilliValue(), b.limit.MilliValue(), b.bound.MilliValue()
	}
	return request, limit, bound
}

func (b *bounded) refuse(which, what string) error {
	return fmt.Errorf("%s %s usage per %s is %s%s", which, b.name, b.kind, b.bound.String(), what)
}

func (u use) atLeast(bounds corev1.ResourceList) []error {
	return u.each(bounds, func(b bounded) error {
		request, limit, bound := b.values()
		switch {
		case !b.requested:
			return b.refuse("minimum", ".  No request is specified")
		case request < bound:
			return b.refuse("minimum", ", but request is "+b.request.String())
		case b.limited && limit < bound:
			return b.refuse("minimum", ", but limit is "+b.limit.String())
		}
		return nil
	})
}

func (u use) atMost(bounds corev1.ResourceList) []error {
	return u.each(bounds, func(b bounded) error {
		request, limit, bound := b.values()
		switch {
		case !b.limited:
			return b.refuse("maximum", ".  No limit is specified")
		case limit > bound:
			return b.refuse("maximum", ", but limit is "+b.limit.String())
		case b.requested && request > bound:
			return b.refuse("maximum", ", but request is "+b.request.String())
		}
		return nil
	})
}

// asks checks the maximum of a use that has requests only.
func (u use) asks(bounds corev1.ResourceList) []error {
	return u.each(bounds, func(b bounded) error {
		request, _, bound := b.values()
		switch {
		case !b.requested:
			return b.refuse("maximum", ".  No request is specified")
		case request > bound:
			return b.refuse("maximum", ", but request is "+b.request.String())
		}
		return nil
	})
}

func (u use) inProportion(bounds corev1.ResourceList) []error {
	return u.each(bounds, func(b bounded) error {
		refuse := func(what string) error {
			return fmt.Errorf("%s max limit to request ratio per %s is %s, but %s", b.name, b.kind, b.bound.String(), what)
		}
		request, limit, _ := b.values()
		switch {
		case !b.requested || request == 0:
			return refuse("no request is specified or request is 0")
		case !b.limited || limit == 0:
			return refuse("no limit is specified or limit is 0")
		}
		ratio, most := float64(limit)/float64(request), float64(b.bound.Value())
		observed := ratio
		if b.bound.Value() <= quantity.MaxMilliValue {
			observed, most = ratio*1000, float64(b.bound.MilliValue())
		}
		if observed > most {
			return refuse(fmt.Sprintf("provided ratio is %f", ratio))
		}
		return nil
	})
}
