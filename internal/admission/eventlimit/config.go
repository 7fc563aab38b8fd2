package eventlimit

import (
	"github.com/kapok-dev/kapok/internal/admission"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A scope is the part of all events that shares a bucket.
type scope string

// The scopes, by their names in the configuration.
const (
	ofServer    scope = "Server"
	ofNamespace scope = "Namespace"
	ofUser      scope = "User"
	ofSource    scope = "SourceAndObject" // the component that reports the event, and what it is about
)

// configuration is Configuration of eventratelimit.admission.k8s.io/v1alpha1.
type configuration struct {
	metav1.TypeMeta `json:",inline"`
	Limits          []limit `json:"limits"`
}

// A limit is the limit of one scope.
type limit struct {
	Type scope `json:"type"`
	// QPS are the events per second, and Burst the most at once.
	QPS   int32 `json:"qps"`
	Burst int32 `json:"burst"`
	// CacheSize is the number of buckets. 0 means 4096; a Server has one.
	CacheSize int32 `json:"cacheSize,omitempty"`
}

// load decodes and validates a configuration. It needs at least one limit, and so it cannot be
// empty.
func load(data []byte) (*configuration, error) {
	c := &configuration{}
	if len(data) > 0 {
		gvk := schema.GroupVersionKind{Group: "eventratelimit.admission.k8s.io", Version: "v1alpha1", Kind: "Configuration"}
		if err := admission.DecodeConfiguration(data, c, gvk); err != nil {
			return nil, err
		}
	}
	if errs := c.validate(); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return c, nil
}

func (c *configuration) validate() field.ErrorList {
	limits := field.NewPath("limits")
	if len(c.Limits) == 0 {
		return field.ErrorList{field.Invalid(limits, c.Limits, "must not be empty")}
	}
	var errs field.ErrorList
	for i, l := range c.Limits {
		at := limits.Index(i)
		switch l.Type {
		case ofServer, ofNamespace, ofUser, ofSource:
		default:
			errs = append(errs, field.NotSupported(at.Child("type"), l.Type, []scope{ofNamespace, ofServer, ofSource, ofUser}))
		}
		if l.Burst <= 0 {
			errs = append(errs, field.Invalid(at.Child("burst"), l.Burst, "must be positive"))
		}
		if l.QPS <= 0 {
			errs = append(errs, field.Invalid(at.Child("qps"), l.QPS, "must be positive"))
		}
		if l.Type != ofServer && l.CacheSize < 0 {
			errs = append(errs, field.Invalid(at.Child("cacheSize"), l.CacheSize, "must not be negative"))
		}
	}
	return errs
}
