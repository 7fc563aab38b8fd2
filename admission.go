package kapok

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/admission/defaults"
	"github.com/kapok-dev/kapok/internal/admission/limits"
	"github.com/kapok-dev/kapok/internal/admission/owners"
	"github.com/kapok-dev/kapok/internal/admission/podsecurity"
	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/resource"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"
)

// AdmissionOptions say which of Kubernetes' admission plugins judge the writes of users. With zero values it is those that
// are on by default in Kubernetes.
type AdmissionOptions struct {
	// Enable and Disable are names of plugins to turn on and off, besides the defaults. A plugin that this server does not
	// have cannot be turned on, nor one off whose work is a part of the server: NamespaceLifecycle, PersistentVolumeClaimResize, CertificateSubjectRestriction.
	Enable, Disable []string
	// ConfigFile is a file with Kubernetes' AdmissionConfiguration (apiserver.config.k8s.io/v1), for the configuration of PodSecurity.
	// Default: none.
	ConfigFile string
	// NotReadySeconds and UnreachableSeconds are for how long pods tolerate, unless they say otherwise, that their node is
	// not ready, or cannot be reached. Default: 300.
	NotReadySeconds, UnreachableSeconds *int64
}

// A pluginState is what is to be known of a name of a plugin.
type pluginState int

const (
	on      pluginState = iota // unless it is turned off
	off                        // unless it is turned on
	always                     // a part of the server
	missing                    // off in Kubernetes, and not there
)

// admissionPlugins are the names of Kubernetes' plugins, in the order in which they act.
func admissionPlugins() []struct {
	name  string
	state pluginState
} {
	return []struct {
		name  string
		state pluginState
	}{
		{"AlwaysAdmit", missing},
		{"NamespaceAutoProvision", missing},
		{"NamespaceLifecycle", always},
		{"NamespaceExists", missing},
		{"LimitPodHardAntiAffinityTopology", missing},
		{"LimitRanger", on},
		{"ServiceAccount", on},
		{"NodeRestriction", missing},
		{"TaintNodesByCondition", on},
		{"AlwaysPullImages", missing},
		{"ImagePolicyWebhook", missing},
		{"PodSecurity", on},
		{"PodNodeSelector", missing},
		{"Priority", on},
		{"DefaultTolerationSeconds", on},
		{"PodTolerationRestriction", missing},
		{"EventRateLimit", missing},
		{"ExtendedResourceToleration", missing},
		{"DefaultStorageClass", on},
		{"StorageObjectInUseProtection", on},
		{"PodGroupProtection", on},
		{"OwnerReferencesPermissionEnforcement", off},
		{"PersistentVolumeClaimResize", always},
		{"RuntimeClass", on},
		{"CertificateApproval", on},
		{"CertificateSigning", on},
		{"ClusterTrustBundleAttest", on},
		{"CertificateSubjectRestriction", always},
		{"DefaultIngressClass", on},
		{"DenyServiceExternalIPs", missing},
		{"PodTopologyLabels", on},
		{"NodeDeclaredFeatureValidator", on},
		{"PodResizeValidator", on},
		{"MutatingAdmissionPolicy", on},
		{"MutatingAdmissionWebhook", on},
		{"ValidatingAdmissionPolicy", on},
		{"ValidatingAdmissionWebhook", on},
		{"ResourceQuota", on},
		{"AlwaysDeny", missing},
	}
}

// on says whether a plugin is on.
func (o *AdmissionOptions) on(name string) bool {
	if slices.Contains(o.Disable, name) {
		return false
	}
	for _, p := range admissionPlugins() {
		if p.name == name {
			return p.state == on || p.state == always || slices.Contains(o.Enable, name)
		}
	}
	return false
}

// validate refuses names that are not known, and what cannot be turned on or off.
func (o *AdmissionOptions) validate() error {
	known := map[string]pluginState{}
	for _, p := range admissionPlugins() {
		known[p.name] = p.state
	}
	var errs []error
	var both []string
	for _, name := range o.Enable {
		switch state, ok := known[name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("enable-admission-plugins plugin %q is unknown", name))
		case state == missing:
			errs = append(errs, fmt.Errorf("enable-admission-plugins plugin %q is one of Kubernetes', which Kapok does not have", name))
		}
		if slices.Contains(o.Disable, name) && !slices.Contains(both, name) {
			both = append(both, name)
		}
	}
	for _, name := range o.Disable {
		switch state, ok := known[name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("disable-admission-plugins plugin %q is unknown", name))
		case state == always:
			errs = append(errs, fmt.Errorf("disable-admission-plugins plugin %q is a part of the server, and cannot be turned off", name))
		}
	}
	if slices.Sort(both); len(both) > 0 {
		errs = append(errs, fmt.Errorf("%v in enable-admission-plugins and disable-admission-plugins overlapped", both))
	}
	return errors.Join(errs...)
}

// Missing returns those plugins of Enable that are Kubernetes', and not there: a server does not start with them.
func (o *AdmissionOptions) Missing() []string {
	var names []string
	for _, p := range admissionPlugins() {
		if p.state == missing && slices.Contains(o.Enable, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// chain puts the plugins that are on into their order: those of this file, and the others, by their names in Kubernetes. The
// options are valid.
func (o *AdmissionOptions) chain(store *resource.Store, authorizer auth.Authorizer, others map[string][]admission.Plugin) (admission.Chain, error) {
	config, err := o.config(podsecurity.Name)
	if err != nil {
		return nil, err
	}
	security, err := podsecurity.New(store.State(), config)
	if err != nil {
		return nil, err
	}
	st := store.State()
	made := map[string]admission.Plugin{
		limits.Name:                    limits.New(st),
		"TaintNodesByCondition":        defaults.NewNodes{},
		podsecurity.Name:               security,
		"Priority":                     defaults.Priority{State: st},
		"DefaultTolerationSeconds":     o.tolerations(),
		"DefaultStorageClass":          defaults.StorageClass{State: st},
		"StorageObjectInUseProtection": defaults.StorageInUse{},
		owners.Name:                    owners.New(authorizer, store.Registry()),
		"RuntimeClass":                 defaults.RuntimeClass{State: st},
		"DefaultIngressClass":          defaults.IngressClass{State: st},
	}
	var chain admission.Chain
	for _, p := range admissionPlugins() {
		if !o.on(p.name) {
			continue
		}
		if plugin := made[p.name]; plugin != nil {
			chain = append(chain, plugin)
		}
		chain = append(chain, others[p.name]...)
	}
	return chain, nil
}

func (o *AdmissionOptions) tolerations() defaults.TolerationSeconds {
	seconds := func(asked *int64) int64 {
		if asked == nil {
			return 300
		}
		return *asked
	}
	return defaults.TolerationSeconds{NotReady: seconds(o.NotReadySeconds), Unreachable: seconds(o.UnreachableSeconds)}
}

// config returns what the configuration file says for a plugin, nil if nothing. What it says for others would have no effect, and
// is refused.
func (o *AdmissionOptions) config(plugin string) ([]byte, error) {
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
		return nil, fmt.Errorf("admission control configuration %s: it is a %q of %q, want an AdmissionConfiguration of apiserver.config.k8s.io/v1",
			o.ConfigFile, config.Kind, config.APIVersion)
	}
	var found *apiserverv1.AdmissionPluginConfiguration
	for i, p := range config.Plugins {
		if p.Name != plugin {
			return nil, fmt.Errorf("admission control configuration %s: plugin %q takes none here", o.ConfigFile, p.Name)
		}
		if found == nil {
			found = &config.Plugins[i]
		}
	}
	switch {
	case found == nil:
		return nil, nil
	case found.Configuration != nil:
		return found.Configuration.Raw, nil
	case found.Path == "":
		return nil, nil
	case filepath.IsAbs(found.Path):
		return os.ReadFile(found.Path)
	}
	return os.ReadFile(filepath.Join(filepath.Dir(o.ConfigFile), found.Path))
}
