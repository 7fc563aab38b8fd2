package imagepolicy

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// configuration is the configuration of the plugin. In Kubernetes it has no kind and no version.
type configuration struct {
	ImagePolicy options `json:"imagePolicy"`
}

// options are the fields of the configuration. 0 means the default of a number, and -1 no time.
type options struct {
	// KubeConfigFile has the URL of the webhook and the credentials for it. A relative path is
	// relative to the working directory of the server.
	KubeConfigFile string `json:"kubeConfigFile"`
	// AllowTTL and DenyTTL are the seconds for which responses are cached. Default 300 and 30.
	AllowTTL int64 `json:"allowTTL"`
	DenyTTL  int64 `json:"denyTTL"`
	// RetryBackoff are the milliseconds before the second of five attempts. Default 500.
	RetryBackoff int64 `json:"retryBackoff"`
	// DefaultAllow admits pods if the webhook fails.
	DefaultAllow bool `json:"defaultAllow"`
}

// A policy is the meaning of valid options.
type policy struct {
	kubeconfig              string
	allowTTL, denyTTL, wait time.Duration
	failsOpen               bool
}

// load decodes and validates a configuration.
func load(data []byte) (*policy, error) {
	var c configuration
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, err
	}
	o, at := c.ImagePolicy, field.NewPath("imagePolicy")
	var errs field.ErrorList
	if o.KubeConfigFile == "" {
		errs = append(errs, field.Required(at.Child("kubeConfigFile"), "a kubeconfig with the URL of the webhook"))
	}
	// The bounds are Kubernetes', which excludes a time of one second.
	duration := func(name string, value, smallest, largest int64, unit string, of, byDefault time.Duration) time.Duration {
		switch {
		case value == -1:
			return 0
		case value == 0:
			return byDefault
		case value < smallest || value > largest:
			errs = append(errs, field.Invalid(at.Child(name), value,
				fmt.Sprintf("must be -1, 0, or from %d to %d %s", smallest, largest, unit)))
		}
		return time.Duration(value) * of
	}
	p := &policy{
		kubeconfig: o.KubeConfigFile,
		allowTTL:   duration("allowTTL", o.AllowTTL, 2, 1800, "seconds", time.Second, 5*time.Minute),
		denyTTL:    duration("denyTTL", o.DenyTTL, 2, 1800, "seconds", time.Second, 30*time.Second),
		wait:       duration("retryBackoff", o.RetryBackoff, 1, 300_000, "milliseconds", time.Millisecond, 500*time.Millisecond),
		failsOpen:  o.DefaultAllow,
	}
	return p, errs.ToAggregate()
}
