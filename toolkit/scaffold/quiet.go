package scaffold

import (
	"os"
	"strconv"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	"sigs.k8s.io/kubebuilder/v4/pkg/config"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
	deployimage "sigs.k8s.io/kubebuilder/v4/pkg/plugins/golang/deploy-image/v1alpha1"
	golangv4 "sigs.k8s.io/kubebuilder/v4/pkg/plugins/golang/v4"
)

// A quietPlugin is kubebuilder's plugin for Go projects, without the programs that it runs at the
// end of a command: make and go. kapokPlugin, which comes after it, does their work.
type quietPlugin struct{ golangv4.Plugin }

var _ plugin.Full = (*quietPlugin)(nil)

func (p *quietPlugin) GetInitSubcommand() plugin.InitSubcommand {
	return &quietInit{quiet: quiet{of: p.Plugin.GetInitSubcommand()}}
}

func (p *quietPlugin) GetCreateAPISubcommand() plugin.CreateAPISubcommand {
	return &quietAPI{quiet: quiet{of: p.Plugin.GetCreateAPISubcommand()}}
}

func (p *quietPlugin) GetCreateWebhookSubcommand() plugin.CreateWebhookSubcommand {
	return &quietResource{quiet{of: p.Plugin.GetCreateWebhookSubcommand()}}
}

func (p *quietPlugin) GetEditSubcommand() plugin.EditSubcommand {
	return &quiet{of: p.Plugin.GetEditSubcommand()}
}

// An imagePlugin is kubebuilder's plugin for an API whose controller runs an image, without the
// programs that it runs at the end.
type imagePlugin struct{ deployimage.Plugin }

var _ plugin.CreateAPI = (*imagePlugin)(nil)

func (p *imagePlugin) GetCreateAPISubcommand() plugin.CreateAPISubcommand {
	return &quietResource{quiet{of: p.Plugin.GetCreateAPISubcommand()}}
}

// quiet forwards all steps of a subcommand but the last one, PostScaffold.
type quiet struct {
	of     plugin.Subcommand
	flags  *pflag.FlagSet
	config config.Config
}

func (q *quiet) UpdateMetadata(c plugin.CLIMetadata, m *plugin.SubcommandMetadata) {
	if of, ok := q.of.(plugin.UpdatesMetadata); ok {
		of.UpdateMetadata(c, m)
	}
}

func (q *quiet) BindFlags(flags *pflag.FlagSet) {
	q.flags = flags
	if of, ok := q.of.(plugin.HasFlags); ok {
		of.BindFlags(flags)
	}
}

func (q *quiet) InjectConfig(c config.Config) error {
	q.config = c
	if of, ok := q.of.(plugin.RequiresConfig); ok {
		return of.InjectConfig(c)
	}
	return nil
}

func (q *quiet) PreScaffold(files machinery.Filesystem) error {
	if of, ok := q.of.(plugin.HasPreScaffold); ok {
		return of.PreScaffold(files)
	}
	return nil
}

func (q *quiet) Scaffold(files machinery.Filesystem) error { return q.of.Scaffold(files) }

// quietInit does not run go get for controller-runtime: go.mod requires it already.
type quietInit struct{ quiet }

func (q *quietInit) Scaffold(files machinery.Filesystem) error {
	if err := q.flags.Set("fetch-deps", "false"); err != nil {
		return err
	}
	return q.quiet.Scaffold(files)
}

// quietAPI asks only at a terminal what is to be made.
type quietAPI struct{ quiet }

func (q *quietAPI) InjectResource(r *resource.Resource) error {
	resourceFlag, controllerFlag := q.flags.Lookup("resource"), q.flags.Lookup("controller")
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		resourceFlag.Changed = true
	}
	if !controllerFlag.Changed {
		controlled := q.controls(r)
		if controlled || !term.IsTerminal(int(os.Stdin.Fd())) {
			if err := controllerFlag.Value.Set(strconv.FormatBool(!controlled)); err != nil {
				return err
			}
			controllerFlag.Changed = true
		}
	}
	return q.of.(plugin.CreateAPISubcommand).InjectResource(r)
}

// controls reports whether the project has a controller for another version of a kind.
func (q *quietAPI) controls(r *resource.Resource) bool {
	known, err := q.config.GetResources()
	if err != nil {
		return false // the plugin reports it
	}
	for _, k := range known {
		if k.Group == r.Group && k.Kind == r.Kind && k.Version != r.Version && k.HasController() {
			return true
		}
	}
	return false
}

// quietResource is a command for a resource, which is given to it.
type quietResource struct{ quiet }

func (q *quietResource) InjectResource(r *resource.Resource) error {
	return q.of.(plugin.CreateWebhookSubcommand).InjectResource(r)
}
