package server

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/admission/manifests"
	"github.com/kapok-dev/kapok/internal/admission/plugins"
	"github.com/kapok-dev/kapok/internal/gates"
	"github.com/kapok-dev/kapok/internal/resource"
)

// readManifests puts the policies and webhooks in effect that the configurations of admission
// plugins have in directories, and keeps them up to date until c closes.
func (p *parts) readManifests(registry *resource.Registry, selected plugins.Options, a *admitting, hooks *webhooks, c *closers) error {
	paths, err := selected.Manifests(p.options.gates().Enabled(gates.ManifestBasedAdmission))
	if err != nil || len(paths) == 0 {
		return err
	}
	a.manifests = manifests.NewMetrics()
	var dirs []*manifests.Dir
	for _, plugin := range []struct {
		name string
		use  func(manifests.Objects) error
		of   []string
	}{
		{plugins.MutatingAdmissionPolicy, func(o manifests.Objects) error {
			return a.policies.UseMutating(o["mutatingadmissionpolicies"], o["mutatingadmissionpolicybindings"])
		}, []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}},
		{plugins.MutatingAdmissionWebhook, func(o manifests.Objects) error {
			return hooks.UseMutating(o["mutatingwebhookconfigurations"])
		}, []string{"mutatingwebhookconfigurations"}},
		{plugins.ValidatingAdmissionPolicy, func(o manifests.Objects) error {
			return a.policies.UseValidating(o["validatingadmissionpolicies"], o["validatingadmissionpolicybindings"])
		}, []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}},
		{plugins.ValidatingAdmissionWebhook, func(o manifests.Objects) error {
			return hooks.UseValidating(o["validatingwebhookconfigurations"])
		}, []string{"validatingwebhookconfigurations"}},
	} {
		path := paths[plugin.name]
		if path == "" {
			continue
		}
		dir, err := manifests.Open(context.Background(), manifests.Options{
			Plugin: plugin.name, Path: path, Plurals: plugin.of, Use: plugin.use,
			Registry: registry, Metrics: a.manifests, Logger: p.options.Logger,
		})
		if err != nil {
			return fmt.Errorf("couldn't init admission plugin %q: staticManifestsDir: %w", plugin.name, err)
		}
		dirs = append(dirs, dir)
	}
	c.do(background(func(ctx context.Context) { manifests.Watch(ctx, dirs...) }))
	return nil
}
