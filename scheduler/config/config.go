package config

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kapok-dev/kapok/scheduler/extender"
	"github.com/kapok-dev/kapok/scheduler/place"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	documents "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// kind is the kind of configurations.
const kind = "KubeSchedulerConfiguration"

// Read reads a file in YAML or JSON. The result is not validated: see Compile.
func Read(file string) (*configv1.KubeSchedulerConfiguration, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

func decode(data []byte) (*configv1.KubeSchedulerConfiguration, error) {
	data, err := onlyDocument(data)
	if err != nil {
		return nil, err
	}
	object, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	c := &configv1.KubeSchedulerConfiguration{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(object, &c.TypeMeta); err != nil {
		return nil, err
	}
	if version := configv1.SchemeGroupVersion.String(); c.APIVersion != version || c.Kind != kind {
		return nil, fmt.Errorf("apiVersion %q, kind %q: must be %s, %s", c.APIVersion, c.Kind, version, kind)
	}
	if err := unmarshal(object, c); err != nil {
		return nil, err
	}
	return c, nil
}

// unmarshal decodes JSON. Unknown and duplicate fields are errors.
func unmarshal(data []byte, to any) error {
	strict, err := kjson.UnmarshalStrict(data, to)
	if err != nil {
		return err
	}
	return errors.Join(strict...)
}

// onlyDocument returns the only document of a YAML file.
func onlyDocument(data []byte) (only []byte, err error) {
	r := documents.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := r.Read()
		if errors.Is(err, io.EOF) {
			return only, nil
		}
		if err != nil {
			return nil, err
		}
		var content any
		if err := yaml.Unmarshal(document, &content); err == nil && content == nil {
			continue // only comments
		}
		if only != nil {
			return nil, errors.New("the file has more than one document")
		}
		only = document
	}
}

// Compiled is a configuration with defaults.
type Compiled struct {
	// Profiles are the rules, by the names of schedulers.
	Profiles map[string]*place.Profile
	// InitialBackoff and MaxBackoff are the first and the longest pause after a failed attempt to
	// schedule a pod.
	InitialBackoff, MaxBackoff time.Duration
	// Plugins are the plugins of the program, by the names of schedulers that have some.
	Plugins map[string]*Plugins
	// Extenders are called in this order.
	Extenders []*extender.Extender
}

// Compile returns the meaning of a configuration, or errors that name fields and values. It does
// not change the configuration.
func Compile(c *configv1.KubeSchedulerConfiguration) (*Compiled, error) {
	return CompileWith(c, Own{})
}

// CompileWith is Compile with plugins of a program.
func CompileWith(c *configv1.KubeSchedulerConfiguration, own Own) (*Compiled, error) {
	if err := own.Validate(); err != nil {
		return nil, err
	}
	errs := validateProcess(c)
	to := &Compiled{Profiles: map[string]*place.Profile{}, InitialBackoff: time.Second, MaxBackoff: 10 * time.Second}
	errs = append(errs, to.setBackoff(c)...)
	extenders, ignored, wrong := compileExtenders(field.NewPath("extenders"), c.Extenders)
	to.Extenders, errs = extenders, append(errs, wrong...)
	profiles := c.Profiles
	if len(profiles) == 0 {
		profiles = []configv1.KubeSchedulerProfile{{}}
	}
	path, at := field.NewPath("profiles"), map[string]int{}
	for i := range profiles {
		p := &profiles[i]
		name, path := "", path.Index(i)
		switch {
		case p.SchedulerName != nil:
			name = *p.SchedulerName
		case len(profiles) == 1:
			name = corev1.DefaultSchedulerName
		}
		if first, has := at[name]; has {
			errs = append(errs, field.Invalid(path.Child("schedulerName"), name, fmt.Sprintf("profiles[%d] has the same name", first)))
			continue
		}
		if name == "" {
			errs = append(errs, field.Required(path.Child("schedulerName"), "each of several profiles needs a name"))
			continue
		}
		at[name] = i
		profile, plugins, wrong := compileProfile(path, name, p, own, ignored)
		to.Profiles[name], errs = profile, append(errs, wrong...)
		if plugins != nil {
			if to.Plugins == nil {
				to.Plugins = map[string]*Plugins{}
			}
			to.Plugins[name] = plugins
		}
	}
	if err := errs.ToAggregate(); err != nil {
		return nil, err
	}
	return to, nil
}

func (to *Compiled) setBackoff(c *configv1.KubeSchedulerConfiguration) (errs field.ErrorList) {
	// Durations of more than a century would overflow.
	const most = 100 * 365 * 24 * 3600
	set := func(name string, seconds *int64, to *time.Duration) {
		if seconds == nil {
			return
		}
		if *seconds <= 0 || *seconds > most {
			errs = append(errs, field.Invalid(field.NewPath(name), *seconds, fmt.Sprintf("must be from 1 to %d", most)))
			return
		}
		*to = time.Duration(*seconds) * time.Second
	}
	set("podInitialBackoffSeconds", c.PodInitialBackoffSeconds, &to.InitialBackoff)
	set("podMaxBackoffSeconds", c.PodMaxBackoffSeconds, &to.MaxBackoff)
	if len(errs) == 0 && to.MaxBackoff < to.InitialBackoff {
		errs = append(errs, field.Invalid(field.NewPath("podMaxBackoffSeconds"), int64(to.MaxBackoff/time.Second),
			fmt.Sprintf("must not be less than podInitialBackoffSeconds, %d", int64(to.InitialBackoff/time.Second))))
	}
	return errs
}

// validateProcess validates the fields about the process of kube-scheduler. Most of them are those
// of a process of its own, which the scheduler is not here.
func validateProcess(c *configv1.KubeSchedulerConfiguration) (errs field.ErrorList) {
	if n := c.Parallelism; n != nil && *n <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("parallelism"), *n, "must be greater than 0"))
	}
	errs = append(errs, validatePercentage(field.NewPath("percentageOfNodesToScore"), c.PercentageOfNodesToScore)...)
	if c.ClientConnection != (v1alpha1.ClientConnectionConfiguration{}) {
		errs = append(errs, field.Forbidden(field.NewPath("clientConnection"), "the scheduler uses the connection of its process"))
	}
	election := c.LeaderElection
	election.LeaderElect = nil
	if election != (v1alpha1.LeaderElectionConfiguration{}) {
		errs = append(errs, field.Forbidden(field.NewPath("leaderElection"), "only leaderElect may be set: the Lease is that of the process"))
	}
	for name, on := range map[string]bool{
		"enableProfiling":           c.EnableProfiling != nil && *c.EnableProfiling,
		"enableContentionProfiling": c.EnableContentionProfiling != nil && *c.EnableContentionProfiling,
	} {
		if on {
			errs = append(errs, field.Forbidden(field.NewPath(name), "the scheduler has no endpoint for profiles"))
		}
	}
	if c.DelayCacheUntilActive {
		errs = append(errs, field.Forbidden(field.NewPath("delayCacheUntilActive"), "the caches are those of the process"))
	}
	return errs
}

func validatePercentage(path *field.Path, percentage *int32) (errs field.ErrorList) {
	if percentage != nil && (*percentage < 0 || *percentage > 100) {
		errs = append(errs, field.Invalid(path, *percentage, "must be from 0 to 100"))
	}
	return errs
}
