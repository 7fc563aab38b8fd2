package plugins

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/admission/eventlimit"
	"github.com/kapok-dev/kapok/internal/admission/imagepolicy"
	"github.com/kapok-dev/kapok/internal/admission/pods"
	"github.com/kapok-dev/kapok/internal/admission/podsecurity"
	"github.com/kapok-dev/kapok/internal/admission/quota"
	"github.com/kapok-dev/kapok/internal/state"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"
)

// Names of plugins with a configuration whose packages have no such constant.
const (
	podNodeSelector          = "PodNodeSelector"
	podTolerationRestriction = "PodTolerationRestriction"
)

// configurable are the plugins that take a configuration.
var configurable = []string{
	eventlimit.Name, imagepolicy.Name, MutatingAdmissionPolicy, MutatingAdmissionWebhook, podNodeSelector, podsecurity.Name, podTolerationRestriction, quota.Name,
	ValidatingAdmissionPolicy, ValidatingAdmissionWebhook,
}

// Quota returns the configuration of the plugin ResourceQuota, which is not part of the chain.
func (o *Options) Quota() (*quota.Configuration, error) {
	configs, err := o.configurations()
	if err != nil {
		return nil, err
	}
	config, err := quota.ReadConfiguration(configs[quota.Name])
	if err != nil {
		return nil, fmt.Errorf("couldn't init admission plugin %q: %w", quota.Name, err)
	}
	return config, nil
}

// ImagePolicy returns the plugin ImagePolicyWebhook, which the caller adds to the chain and closes;
// nil if it is off and has no configuration.
func (o *Options) ImagePolicy() (*imagepolicy.Plugin, error) {
	configs, err := o.configurations()
	if err != nil {
		return nil, err
	}
	config := configs[imagepolicy.Name]
	if config == nil && !o.On(imagepolicy.Name) {
		return nil, nil
	}
	p, err := imagepolicy.New(config)
	if err != nil {
		return nil, fmt.Errorf("couldn't init admission plugin %q: %w", imagepolicy.Name, err)
	}
	return p, nil
}

// configured returns the plugins of the chain that take a configuration, by name. A plugin that is
// off is made, too, if it has a configuration: an invalid one is an error before the plugin is
// turned on.
func (o *Options) configured(st *state.State) (map[string]admission.Plugin, error) {
	configs, err := o.configurations()
	if err != nil {
		return nil, err
	}
	made := map[string]admission.Plugin{}
	for _, name := range configurable {
		config := configs[name]
		if config == nil && !o.On(name) {
			continue
		}
		var err error
		switch name {
		case eventlimit.Name:
			made[name], err = eventlimit.New(config)
		case podNodeSelector:
			made[name], err = pods.NewPodNodeSelector(st, config)
		case podsecurity.Name:
			made[name], err = podsecurity.New(st, config)
		case podTolerationRestriction:
			made[name], err = pods.NewPodTolerationRestriction(st, config)
		}
		if err != nil {
			return nil, fmt.Errorf("couldn't init admission plugin %q: %w", name, err)
		}
	}
	return made, nil
}

// configurations returns the configurations in the configuration file by the names of their
// plugins. Those of plugins that take none, and a second one of a plugin, would have no effect, and
// are errors.
func (o *Options) configurations() (map[string][]byte, error) {
	if o.ConfigFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(o.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("unable to read admission control configuration from %q [%w]", o.ConfigFile, err)
	}
	var config apiserverv1.AdmissionConfiguration
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return nil, fmt.Errorf("admission control configuration %s: %w", o.ConfigFile, err)
	}
	if config.Kind != "AdmissionConfiguration" || !strings.HasPrefix(config.APIVersion, "apiserver.config.k8s.io/") {
		return nil, fmt.Errorf("admission control configuration %s: kind is %q and apiVersion is %q: want an AdmissionConfiguration of apiserver.config.k8s.io/v1",
			o.ConfigFile, config.Kind, config.APIVersion)
	}
	configs := map[string][]byte{}
	for _, p := range config.Plugins {
		if !slices.Contains(configurable, p.Name) {
			return nil, fmt.Errorf("admission control configuration %s: plugin %q cannot be configured, only %s can: remove this entry",
				o.ConfigFile, p.Name, strings.Join(configurable, ", "))
		}
		if _, again := configs[p.Name]; again {
			return nil, fmt.Errorf("admission control configuration %s: plugin %q is configured twice: remove one of the entries", o.ConfigFile, p.Name)
		}
		if configs[p.Name], err = o.configuration(&p); err != nil {
			return nil, fmt.Errorf("admission control configuration %s: plugin %q: %w", o.ConfigFile, p.Name, err)
		}
	}
	return configs, nil
}

// configuration returns the configuration in an entry, or in the file that it names; nil if it has
// neither.
func (o *Options) configuration(p *apiserverv1.AdmissionPluginConfiguration) ([]byte, error) {
	switch {
	case p.Configuration != nil:
		return p.Configuration.Raw, nil
	case p.Path == "":
		return nil, nil
	case filepath.IsAbs(p.Path):
		return os.ReadFile(p.Path)
	}
	return os.ReadFile(filepath.Join(filepath.Dir(o.ConfigFile), p.Path))
}
