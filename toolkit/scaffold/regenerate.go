package scaffold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"
	"github.com/spf13/pflag"
	"sigs.k8s.io/kubebuilder/v4/pkg/config"
	"sigs.k8s.io/kubebuilder/v4/pkg/config/store/yaml"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
	deployimage "sigs.k8s.io/kubebuilder/v4/pkg/plugins/golang/deploy-image/v1alpha1"
	grafana "sigs.k8s.io/kubebuilder/v4/pkg/plugins/optional/grafana/v1alpha"
	helm "sigs.k8s.io/kubebuilder/v4/pkg/plugins/optional/helm/v2alpha"
	sigsyaml "sigs.k8s.io/yaml"
)

const regenerateHelp = `Scaffold a project again, from its PROJECT file.

Usage:
  kapok alpha generate
  kapok alpha generate --output-dir DIRECTORY [--input-dir DIRECTORY]

The commands that PROJECT tells of (init, create api, create webhook, edit) run again with this version of
the scaffolds. The result has no code of yours: compare it with the project, or merge it in a branch of its
own. PROJECT may have the layout go.kubebuilder.io/v3; the new one has go.kubebuilder.io/v4, with main.go in
cmd, and controllers and webhooks in internal.

Without --output-dir, the result replaces the project in this directory: all files that git knows there.
The work tree must be clean, and no file that git ignores may be in the way. Nothing is committed:
git reset --hard brings the project back.

Flags:
  -h, --help                help for generate
      --input-dir string    directory with PROJECT (default: the current one)
      --output-dir string   directory for the new project, which must be empty or not exist (default: the current one)
`

// Regenerate executes the command line kapok alpha generate, whose arguments come after these
// words. It runs the program self for each command, as that runs in the working directory.
func Regenerate(ctx context.Context, self string, args []string, out io.Writer) error {
	flags := pflag.NewFlagSet("generate", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	input := flags.String("input-dir", ".", "")
	output := flags.String("output-dir", "", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(out, regenerateHelp)
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *output == "" && flags.Changed("input-dir"):
		return errors.New("--input-dir needs --output-dir: set an empty directory for the new project")
	}
	known, err := readProject(*input)
	if err != nil {
		return err
	}
	if *output == "" {
		return regenerateHere(ctx, self, known, out)
	}
	if entries, err := os.ReadDir(*output); err == nil && len(entries) > 0 {
		return fmt.Errorf("--output-dir %s is not empty", *output)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--output-dir: %w", err)
	}
	if err := regenerate(ctx, self, known, *input, *output, out); err != nil {
		if _, lost := os.Stat(*output); lost != nil {
			return err
		}
		return fmt.Errorf("%w\nThe project so far is in %s", err, *output)
	}
	fmt.Fprintf(out, "The project is in %s, without your code.\n", *output)
	return nil
}

// regenerateHere replaces the project in the working directory, when all of the new one exists.
func regenerateHere(ctx context.Context, self string, known config.Config, out io.Writer) error {
	repo, err := openRepository(ctx)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "kapok-generate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	made := filepath.Join(temp, known.GetProjectName()) // the name of the directory is in some files
	if err := regenerate(ctx, self, known, ".", made, out); err != nil {
		return err
	}
	if err := repo.replace(ctx, made); err != nil {
		return err
	}
	fmt.Fprintln(out, "The project is scaffolded again, without your code. git diff HEAD shows the changes, and git reset --hard takes them back.")
	return nil
}

// regenerate scaffolds a project in the directory output.
func regenerate(ctx context.Context, self string, known config.Config, input, output string, out io.Writer) error {
	resources, err := known.GetResources()
	if err != nil {
		return err
	}
	commands, err := commandsOf(known, resources, input)
	if err != nil {
		return err
	}
	edits, err := editsOf(known)
	if err != nil {
		return err
	}
	commands = append(commands, edits...)
	if err := warnOfPlugins(known, out); err != nil {
		return err
	}
	if err := os.MkdirAll(output, 0o755); err != nil {
		return err
	}
	for _, command := range commands {
		fmt.Fprintf(out, "kapok %s\n", strings.Join(command, " "))
		c := exec.CommandContext(ctx, self, command...)
		c.Dir = output
		if said, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("kapok %s: %w\n%s", strings.Join(command, " "), err, strings.TrimSpace(string(said)))
		}
	}
	return nil
}

// readProject reads the PROJECT file of a directory, also one of the layout go/v3.
func readProject(dir string) (config.Config, error) {
	data, err := os.ReadFile(filepath.Join(dir, yaml.DefaultPath))
	if err != nil {
		return nil, fmt.Errorf("read the project: %w", err)
	}
	files := afero.NewMemMapFs()
	text := strings.ReplaceAll(string(data), "go.kubebuilder.io/v3", "go.kubebuilder.io/v4")
	if err := afero.WriteFile(files, yaml.DefaultPath, []byte(text), 0o644); err != nil {
		return nil, err
	}
	store := yaml.New(machinery.Filesystem{FS: files})
	if err := store.Load(); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, yaml.DefaultPath), err)
	}
	return store.Config(), nil
}

// commandsOf returns the command lines that make a project with resources.
func commandsOf(c config.Config, resources []resource.Resource, dir string) ([][]string, error) {
	if c.GetRepository() == "" {
		return nil, errors.New("PROJECT has no repo, the path of the module")
	}
	if chain := c.GetPluginChain(); !slices.Contains(chain, "go.kubebuilder.io/v4") {
		return nil, fmt.Errorf("PROJECT has the layout %s: only go.kubebuilder.io/v3 and v4 can be scaffolded", strings.Join(chain, ", "))
	}
	kept := settings{}
	if err := decode(c, pluginKey, &kept); err != nil {
		return nil, err
	}
	first := []string{"init", "--domain=" + c.GetDomain(), "--repo=" + c.GetRepository(), "--project-name=" + c.GetProjectName()}
	if c.IsMultiGroup() {
		first = append(first, "--multigroup")
	}
	if c.IsNamespaced() {
		first = append(first, "--namespaced")
	}
	if kept.TestEnv != "" {
		first = append(first, "--test-env="+kept.TestEnv)
	}
	if kept.Framework != "" {
		first = append(first, "--framework="+kept.Framework)
	}
	license, err := filepath.Abs(filepath.Join(dir, "hack", "boilerplate.go.txt"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(license); err == nil {
		first = append(first, "--license-file="+license)
	}
	commands := [][]string{first}

	images := deployimage.PluginConfig{}
	if err := decode(c, plugin.KeyFor(deployimage.Plugin{}), &images); err != nil {
		return nil, err
	}
	for _, r := range resources {
		if r.Controllers != nil && !r.Controllers.IsEmpty() {
			return nil, fmt.Errorf("%s/%s %s has several controllers: this cannot be scaffolded again", r.Group, r.Version, r.Kind)
		}
		if command := createAPI(r, images.Resources); command != nil {
			commands = append(commands, command)
		}
	}
	for _, r := range resources { // a conversion needs all versions
		if command := createWebhook(r); command != nil {
			commands = append(commands, command)
		}
	}
	return commands, nil
}

// editsOf returns the command lines for the optional plugins of a project.
func editsOf(c config.Config) ([][]string, error) {
	var commands [][]string
	for _, optional := range []plugin.Plugin{grafana.Plugin{}, helm.Plugin{}} {
		kept := map[string]any{}
		if err := c.DecodePluginConfig(plugin.KeyFor(optional), &kept); err != nil {
			continue // the project does not use it
		}
		command := []string{"edit", "--plugins=" + plugin.KeyFor(optional)}
		if dir, ok := kept["output"].(string); ok {
			command = append(command, "--output-dir="+dir)
		}
		commands = append(commands, command)
	}
	return commands, nil
}

// warnOfPlugins names the plugins of a project whose work is not done again.
func warnOfPlugins(c config.Config, out io.Writer) error {
	data, err := c.MarshalYAML()
	if err != nil {
		return err
	}
	var project struct {
		Plugins map[string]any `json:"plugins"`
	}
	if err := sigsyaml.Unmarshal(data, &project); err != nil {
		return err
	}
	known := []string{pluginKey, plugin.KeyFor(deployimage.Plugin{}), plugin.KeyFor(grafana.Plugin{}), plugin.KeyFor(helm.Plugin{})}
	for _, key := range slices.Sorted(maps.Keys(project.Plugins)) {
		if !slices.Contains(known, key) {
			fmt.Fprintf(out, "WARN: the plugin %s is unknown, and its work is not done again\n", key)
		}
	}
	return nil
}

// decode reads the settings of a plugin, if it has any.
func decode(c config.Config, key string, to any) error {
	err := c.DecodePluginConfig(key, to)
	if err == nil || errors.As(err, &config.PluginKeyNotFoundError{}) || errors.As(err, &config.UnsupportedFieldError{}) {
		return nil
	}
	return fmt.Errorf("read plugins.%s of PROJECT: %w", key, err)
}

// kindFlags select a kind, which may belong to another module.
func kindFlags(r resource.Resource) []string {
	flags := []string{"--group=" + r.Group, "--version=" + r.Version, "--kind=" + r.Kind}
	if r.Plural != "" && r.Plural != resource.RegularPlural(r.Kind) {
		flags = append(flags, "--plural="+r.Plural)
	}
	if r.External {
		flags = append(flags, "--external-api-path="+r.Path, "--external-api-domain="+r.Domain)
		if r.Module != "" {
			flags = append(flags, "--external-api-module="+r.Module)
		}
	}
	return flags
}

// createAPI returns the command line for the type and the controller of a kind, nil if it has
// neither.
func createAPI(r resource.Resource, images []deployimage.ResourceData) []string {
	if !r.HasAPI() && !r.HasController() {
		return nil
	}
	command := append([]string{"create", "api"}, kindFlags(r)...)
	at := slices.IndexFunc(images, func(i deployimage.ResourceData) bool {
		return i.Group == r.Group && i.Version == r.Version && i.Kind == r.Kind
	})
	if at < 0 {
		command = append(command, "--resource="+strconv.FormatBool(r.HasAPI()), "--controller="+strconv.FormatBool(r.HasController()))
		if r.HasAPI() {
			command = append(command, "--namespaced="+strconv.FormatBool(r.API.Namespaced))
			if r.API.SSA {
				command = append(command, "--ssa")
			}
		}
		return command
	}
	image := images[at].Options
	command = append(command, "--plugins="+plugin.KeyFor(deployimage.Plugin{}), "--image="+image.Image)
	for _, f := range []struct{ flag, value string }{
		{"--image-container-command", image.ContainerCommand}, {"--image-container-port", image.ContainerPort}, {"--run-as-user", image.RunAsUser},
	} {
		if f.value != "" {
			command = append(command, f.flag+"="+f.value)
		}
	}
	return command
}

// createWebhook returns the command line for the webhooks of a kind, nil if it has none.
func createWebhook(r resource.Resource) []string {
	if r.Webhooks == nil || !r.HasDefaultingWebhook() && !r.HasValidationWebhook() && !r.HasConversionWebhook() {
		return nil
	}
	command := append([]string{"create", "webhook"}, kindFlags(r)...)
	if r.HasDefaultingWebhook() {
		command = append(command, "--defaulting")
	}
	if r.HasValidationWebhook() {
		command = append(command, "--programmatic-validation")
	}
	if r.HasConversionWebhook() {
		command = append(command, "--conversion")
	}
	if len(r.Webhooks.Spoke) > 0 {
		command = append(command, "--spoke="+strings.Join(r.Webhooks.Spoke, ","))
	}
	if path := r.Webhooks.DefaultingPath; path != "" {
		command = append(command, "--defaulting-path="+path)
	}
	if path := r.Webhooks.ValidationPath; path != "" {
		command = append(command, "--validation-path="+path)
	}
	return command
}
