// Package plugins builds the chain of admission plugins: it has their names, their order, and the
// [Options] that enable them. The plugins are in the packages beside it.
//
// The package starts no goroutine and has no locks.
package plugins

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/admission/defaults"
	"github.com/kapok-dev/kapok/internal/admission/eventlimit"
	"github.com/kapok-dev/kapok/internal/admission/imagepolicy"
	"github.com/kapok-dev/kapok/internal/admission/limits"
	"github.com/kapok-dev/kapok/internal/admission/optional"
	"github.com/kapok-dev/kapok/internal/admission/owners"
	"github.com/kapok-dev/kapok/internal/admission/pods"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/resource"
)

// Options select and configure admission plugins, by their names in Kubernetes. With zero values
// the plugins are enabled that Kubernetes enables by default.
type Options struct {
	// Enable are plugins to enable in addition to the default ones.
	Enable []string
	// Disable are plugins to disable although they are enabled by default. NamespaceLifecycle,
	// PersistentVolumeClaimResize and CertificateSubjectRestriction cannot be disabled.
	Disable []string
	// ConfigFile is a file with Kubernetes' AdmissionConfiguration (apiserver.config.k8s.io/v1),
	// for the plugins EventRateLimit, ImagePolicyWebhook, PodNodeSelector, PodSecurity,
	// PodTolerationRestriction and ResourceQuota, and for those of policies and webhooks, which can
	// read objects from directories. EventRateLimit and ImagePolicyWebhook cannot be enabled without.
	// It is read once. Default: none.
	ConfigFile string
	// NotReadySeconds and UnreachableSeconds are the seconds for which pods without such a
	// toleration tolerate a node that is not ready, or unreachable. Default 300.
	NotReadySeconds, UnreachableSeconds *int64
}

// A pluginState is the state of a plugin's name.
type pluginState int

const (
	on     pluginState = iota // unless it is disabled
	off                       // unless it is enabled
	always                    // a part of the server
)

// admissionPlugins are the names of Kubernetes' plugins, in the order in which they run.
func admissionPlugins() []struct {
	name  string
	state pluginState
} {
	return []struct {
		name  string
		state pluginState
	}{
		{"AlwaysAdmit", off},
		{NamespaceAutoProvision, off},
		{"NamespaceLifecycle", always},
		{"NamespaceExists", off},
		{"LimitPodHardAntiAffinityTopology", off},
		{"LimitRanger", on},
		{"ServiceAccount", on},
		{"NodeRestriction", on},
		{"TaintNodesByCondition", on},
		{"AlwaysPullImages", off},
		{imagepolicy.Name, off},
		{"PodSecurity", on},
		{podNodeSelector, off},
		{"Priority", on},
		{"DefaultTolerationSeconds", on},
		{podTolerationRestriction, off},
		{eventlimit.Name, off},
		{"ExtendedResourceToleration", off},
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
		{"DenyServiceExternalIPs", off},
		{"PodTopologyLabels", on},
		{"NodeDeclaredFeatureValidator", on},
		{"PodResizeValidator", on},
		{MutatingAdmissionPolicy, on},
		{MutatingAdmissionWebhook, on},
		{ValidatingAdmissionPolicy, on},
		{ValidatingAdmissionWebhook, on},
		{"ResourceQuota", on},
		{"AlwaysDeny", off},
	}
}

// Names of the plugins that take manifests: see [Options.Manifests].
const (
	MutatingAdmissionPolicy    = "MutatingAdmissionPolicy"
	MutatingAdmissionWebhook   = "MutatingAdmissionWebhook"
	ValidatingAdmissionPolicy  = "ValidatingAdmissionPolicy"
	ValidatingAdmissionWebhook = "ValidatingAdmissionWebhook"
)

// NamespaceAutoProvision is the name of a plugin that is not in the chain: see
// [optional.NamespaceAutoProvision].
const NamespaceAutoProvision = "NamespaceAutoProvision"

// On reports whether a plugin is enabled.
func (o *Options) On(name string) bool {
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

// Validate returns an error for each name that is unknown, and for plugins that cannot be enabled
// or disabled. It does not read ConfigFile.
func (o *Options) Validate() error {
	known := map[string]pluginState{}
	for _, p := range admissionPlugins() {
		known[p.name] = p.state
	}
	var errs []error
	var both []string
	for _, name := range o.Enable {
		if _, ok := known[name]; !ok {
			errs = append(errs, fmt.Errorf("enable-admission-plugins plugin %q is unknown", name))
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
			errs = append(errs, fmt.Errorf("disable-admission-plugins: plugin %q cannot be disabled: remove it from the list", name))
		}
	}
	if slices.Sort(both); len(both) > 0 {
		errs = append(errs, fmt.Errorf("%v in enable-admission-plugins and disable-admission-plugins overlapped", both))
	}
	return errors.Join(errs...)
}

// Chain returns the plugins that valid options enable, in Kubernetes' order: those that Chain makes
// itself, and others, by their names in Kubernetes. Each is timed under that name. The error is
// that of ConfigFile.
func (o *Options) Chain(store *resource.Store, authorizer authz.Authorizer, others map[string][]admission.Plugin, metrics *admission.Metrics) (admission.Chain, error) {
	st := store.State()
	made, err := o.configured(st)
	if err != nil {
		return nil, err
	}
	maps.Copy(made, map[string]admission.Plugin{
		"NamespaceExists":                  optional.NamespaceExists{State: st},
		"LimitPodHardAntiAffinityTopology": pods.LimitPodHardAntiAffinityTopology{},
		limits.Name:                        limits.New(st),
		"TaintNodesByCondition":            defaults.NewNodes{},
		"AlwaysPullImages":                 pods.AlwaysPullImages{},
		"Priority":                         defaults.Priority{State: st},
		"DefaultTolerationSeconds":         o.tolerations(),
		"ExtendedResourceToleration":       pods.ExtendedResourceToleration{},
		"DefaultStorageClass":              defaults.StorageClass{State: st},
		"StorageObjectInUseProtection":     defaults.StorageInUse{},
		owners.Name:                        owners.New(authorizer, store.Registry()),
		"RuntimeClass":                     defaults.RuntimeClass{State: st},
		"DefaultIngressClass":              defaults.IngressClass{State: st},
		"DenyServiceExternalIPs":           optional.DenyServiceExternalIPs{},
		"PodTopologyLabels":                pods.PodTopologyLabels{State: st},
		"NodeDeclaredFeatureValidator":     pods.NodeDeclaredFeatureValidator{State: st},
		"PodResizeValidator":               pods.PodResizeValidator{State: st},
		"AlwaysDeny":                       optional.AlwaysDeny{},
	})
	var chain admission.Chain
	for _, p := range admissionPlugins() {
		if !o.On(p.name) {
			continue
		}
		if plugin := made[p.name]; plugin != nil {
			chain = append(chain, metrics.Timed(p.name, plugin))
		}
		for _, plugin := range others[p.name] {
			chain = append(chain, metrics.Timed(p.name, plugin))
		}
	}
	return chain, nil
}

func (o *Options) tolerations() defaults.TolerationSeconds {
	seconds := func(asked *int64) int64 {
		if asked == nil {
			return 300
		}
		return *asked
	}
	return defaults.TolerationSeconds{NotReady: seconds(o.NotReadySeconds), Unreachable: seconds(o.UnreachableSeconds)}
}
