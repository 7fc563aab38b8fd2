package scaffold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kapok-dev/kapok/toolkit/generate"

	"sigs.k8s.io/kubebuilder/v4/pkg/config"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
	helm "sigs.k8s.io/kubebuilder/v4/pkg/plugins/optional/helm/v2alpha"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// A helmPlugin is kubebuilder's plugin for Helm charts. It makes the chart of the manifests in
// dist/install.yaml, which are built in the process: without make and the program kustomize.
type helmPlugin struct {
	helm.Plugin
	out io.Writer
}

var _ plugin.Edit = (*helmPlugin)(nil)

func (p *helmPlugin) GetEditSubcommand() plugin.EditSubcommand {
	return &helmStep{quiet: quiet{of: p.Plugin.GetEditSubcommand()}, out: p.out}
}

type helmStep struct {
	quiet
	out io.Writer
}

func (s *helmStep) Scaffold(files machinery.Filesystem) error {
	flag := s.flags.Lookup("manifests")
	if flag.Value.String() != helm.DefaultManifestsFile {
		return s.quiet.Scaffold(files)
	}
	if err := buildInstaller(s.out); err != nil {
		return err
	}
	// The same file by another name: at its usual one the plugin runs make.
	if err := flag.Value.Set("./" + helm.DefaultManifestsFile); err != nil {
		return err
	}
	if err := s.quiet.Scaffold(files); err != nil {
		return err
	}
	return s.rename()
}

// rename writes the usual name of the manifests into PROJECT.
func (s *helmStep) rename() error {
	key := plugin.GetPluginKeyForConfig(s.config.GetPluginChain(), helm.Plugin{})
	settings := map[string]any{}
	if err := s.config.DecodePluginConfig(key, &settings); err != nil {
		if errors.As(err, &config.UnsupportedFieldError{}) {
			return nil // PROJECT has no settings of plugins
		}
		return err
	}
	for name, value := range settings {
		if value == "./"+helm.DefaultManifestsFile {
			settings[name] = helm.DefaultManifestsFile
		}
	}
	return s.config.EncodePluginConfig(key, settings)
}

// buildInstaller does what make build-installer does: it generates, and writes all manifests of
// config/default into one file.
func buildInstaller(out io.Writer) error {
	result, err := generate.Run(context.Background(), generate.Options{})
	if err != nil {
		return fmt.Errorf("generate code and manifests:\n%w", err)
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // namespaces first, unless config/default sorts otherwise
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Join("config", "default"))
	if err != nil {
		return fmt.Errorf("build config/default: %w", err)
	}
	data, err := built.AsYaml()
	if err != nil {
		return fmt.Errorf("build config/default: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(helm.DefaultManifestsFile), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(helm.DefaultManifestsFile, data, 0o644); err != nil {
		return err
	}
	for _, name := range append(result.Written, helm.DefaultManifestsFile) {
		fmt.Fprintf(out, "  %s\n", name)
	}
	return nil
}
