package scaffold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"

	"github.com/spf13/afero"
	"github.com/spf13/pflag"
	mod "golang.org/x/mod/module"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kubebuilder/v4/pkg/config"
	cfgv3 "sigs.k8s.io/kubebuilder/v4/pkg/config/v3"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/stage"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
	"sigs.k8s.io/yaml"
)

const (
	pluginName = "kapok.dev"
	pluginKey  = pluginName + "/v1"
	module     = "github.com/kapok-dev/kapok"
)

// A kapokPlugin comes after kubebuilder's plugins: it puts the test suites that are new on Kapok,
// and does what kubebuilder leaves to make.
type kapokPlugin struct {
	version, source string
	renderOnly      bool
	out             io.Writer
}

var _ plugin.Full = (*kapokPlugin)(nil)

func (*kapokPlugin) Name() string            { return pluginName }
func (*kapokPlugin) Version() plugin.Version { return plugin.Version{Number: 1, Stage: stage.Stable} }
func (*kapokPlugin) SupportedProjectVersions() []config.Version {
	return []config.Version{cfgv3.Version}
}
func (*kapokPlugin) Description() string { return "Tests on Kapok, and generators in the process" }

func (p *kapokPlugin) GetInitSubcommand() plugin.InitSubcommand {
	return &initStep{step{plugin: p}}
}

func (p *kapokPlugin) GetCreateAPISubcommand() plugin.CreateAPISubcommand {
	return &apiStep{suiteStep{step: step{plugin: p}, newSuite: func() located { return &controllerSuite{} }}}
}

func (p *kapokPlugin) GetCreateWebhookSubcommand() plugin.CreateWebhookSubcommand {
	return &webhookStep{suiteStep{step: step{plugin: p}, newSuite: func() located { return &webhookSuite{} }}}
}

func (p *kapokPlugin) GetEditSubcommand() plugin.EditSubcommand {
	return &editStep{step{plugin: p}}
}

// settings are what PROJECT keeps for this plugin. The defaults are not kept, so that PROJECT is
// that of kubebuilder.
type settings struct {
	TestEnv   string `json:"testEnv,omitempty"`
	Framework string `json:"framework,omitempty"`
	// Version of Kapok whose scaffolds the project has, if it is a published one.
	Version string `json:"version,omitempty"`
}

// The frameworks.
const (
	onControllerRuntime = "controller-runtime"
	onKapoksFramework   = "kapok"
)

// The test environments.
const (
	onKapok   = "kapoktest"
	onEnvtest = "envtest"
)

// A step is the part of this plugin in one command.
type step struct {
	plugin    *kapokPlugin
	config    config.Config
	testEnv   string
	framework string
	kept      settings
	tidies    bool
}

func (s *step) InjectConfig(c config.Config) error {
	s.config = c
	if err := c.DecodePluginConfig(pluginKey, &s.kept); err != nil && !errors.As(err, &config.PluginKeyNotFoundError{}) && !errors.As(err, &config.UnsupportedFieldError{}) {
		return fmt.Errorf("read plugins.%s of PROJECT: %w", pluginKey, err)
	}
	s.testEnv = cmp.Or(s.testEnv, s.kept.TestEnv, onKapok)
	s.framework = cmp.Or(s.framework, s.kept.Framework, onControllerRuntime)
	switch {
	case s.testEnv != onKapok && s.testEnv != onEnvtest:
		return fmt.Errorf("--test-env %q: must be %s or %s", s.testEnv, onKapok, onEnvtest)
	case s.framework != onControllerRuntime && s.framework != onKapoksFramework:
		return fmt.Errorf("--framework %q: must be %s or %s", s.framework, onControllerRuntime, onKapoksFramework)
	case s.framework == onKapoksFramework && s.testEnv == onEnvtest:
		return fmt.Errorf("--framework %s: its tests run on %s, not on %s", s.framework, onKapok, onEnvtest)
	case s.framework != onKapoksFramework && s.kept.Framework == onKapoksFramework:
		return fmt.Errorf("--framework %s: the project is on Kapok's framework, and there is no way back", s.framework)
	}
	return nil
}

func (s *step) bindSettings(flags *pflag.FlagSet) {
	flags.StringVar(&s.framework, "framework", "", "framework of the operator: controller-runtime, or kapok, which has the same names and no controller-runtime in go.mod (default controller-runtime)")
	flags.StringVar(&s.testEnv, "test-env", "", "what new test suites run on: kapoktest, a server in the test process, or envtest (default kapoktest)")
}

func (s *step) bindFetchDeps(flags *pflag.FlagSet) {
	flags.BoolVar(&s.tidies, "fetch-deps", true, "download dependencies")
}

// keep stores the settings in PROJECT, if they are others than before.
func (s *step) keep() error {
	is := settings{Version: s.kept.Version}
	if s.testEnv != onKapok {
		is.TestEnv = s.testEnv
	}
	if s.framework != onControllerRuntime {
		is.Framework = s.framework
	}
	if is == s.kept && is.Version == "" {
		return nil
	}
	return s.config.EncodePluginConfig(pluginKey, is)
}

// finish does what kubebuilder leaves to make and go: it updates go.mod, and generates.
func (s *step) finish(generates bool) error {
	if s.framework == onKapoksFramework {
		if err := portToKapok(); err != nil {
			return err
		}
	}
	if s.plugin.renderOnly {
		return nil
	}
	if err := s.requireKapok(); err != nil {
		return err
	}
	if s.tidies {
		if err := s.goCommand("mod", "tidy"); err != nil {
			return err
		}
	}
	if !generates {
		return nil
	}
	result, err := generate.Run(context.Background(), generate.Options{})
	if err != nil {
		return fmt.Errorf("generate code and manifests:\n%w", err)
	}
	for _, name := range result.Written {
		fmt.Fprintf(s.plugin.out, "  %s\n", name)
	}
	return listWebhooks()
}

// Webhooks in the kustomization of a project: kubebuilder lists their manifests always, but
// webhooks for conversions have none, and then kustomize fails.
const (
	webhookList     = "config/webhook/kustomization.yaml"
	webhooksListed  = "\n- manifests.yaml\n"
	webhooksMissing = "\n#- manifests.yaml\n"
)

// listWebhooks makes the kustomization of webhooks list their manifests if there are any.
func listWebhooks() error {
	data, err := os.ReadFile(webhookList)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	from, to := webhooksMissing, webhooksListed
	if _, err := os.Stat(webhookFile); errors.Is(err, os.ErrNotExist) {
		from, to = to, from
	}
	text := "\n" + string(data)
	if !strings.Contains(text, from) {
		return nil
	}
	return os.WriteFile(webhookList, []byte(strings.Replace(text, from, to, 1)[1:]), 0o644)
}

// requireKapok makes go.mod use the source of Kapok from which this program comes, if it is not
// published.
func (s *step) requireKapok() error {
	if s.testEnv == onEnvtest {
		return nil
	}
	if s.plugin.source != "" {
		return s.goCommand("mod", "edit", "-require="+module+"@v0.0.0", "-replace="+module+"="+s.plugin.source)
	}
	if s.plugin.version != "" {
		return s.goCommand("mod", "edit", "-require="+module+"@"+s.plugin.version)
	}
	return nil
}

func (s *step) goCommand(args ...string) error {
	var said strings.Builder
	c := exec.Command("go", args...)
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return nil
}

// An initStep is part of kapok init.
type initStep struct{ step }

func (s *initStep) BindFlags(flags *pflag.FlagSet) {
	s.bindSettings(flags)
	s.bindFetchDeps(flags)
}

// PreScaffold refuses domains that no group may have, and names of projects that are numbers or the
// like in YAML: they become labels of the manifests, which have to be strings.
func (s *initStep) PreScaffold(machinery.Filesystem) error {
	if domain := s.config.GetDomain(); domain != "" {
		if problems := validation.IsDNS1123Subdomain(domain); len(problems) > 0 {
			return fmt.Errorf("--domain %q: %s", domain, strings.Join(problems, "; "))
		}
	}
	if repo := s.config.GetRepository(); mod.CheckImportPath(repo) != nil {
		return fmt.Errorf("--repo %q: must be the path of a Go module, such as example.com/project", repo)
	}
	name := s.config.GetProjectName()
	var value any
	if err := yaml.Unmarshal([]byte(name), &value); err != nil {
		return fmt.Errorf("--project-name %q: %w", name, err)
	}
	if _, ok := value.(string); !ok {
		return fmt.Errorf("--project-name %q: must not be a number, a truth value or a date (the default is the name of the directory)", name)
	}
	return nil
}

func (s *initStep) Scaffold(files machinery.Filesystem) error {
	s.kept.Version = s.plugin.version
	if err := s.keep(); err != nil {
		return err
	}
	if err := putMakefileOnKapok(files, s.testEnv); err != nil {
		return err
	}
	return addCommands(files, s.testEnv)
}

func (s *initStep) PostScaffold() error {
	if err := s.finish(false); err != nil {
		return err
	}
	fmt.Fprintf(s.plugin.out, "The project is ready. Add a kind with a controller:\n\n  kapok create api --group GROUP --version v1 --kind KIND\n")
	return nil
}

// An editStep is part of kapok edit.
type editStep struct{ step }

func (s *editStep) BindFlags(flags *pflag.FlagSet) { s.bindSettings(flags) }

func (s *editStep) Scaffold(machinery.Filesystem) error { return s.keep() }

// PostScaffold moves a project to another framework.
func (s *editStep) PostScaffold() error {
	if s.framework == cmp.Or(s.kept.Framework, onControllerRuntime) {
		return nil
	}
	s.tidies = true
	return s.finish(false)
}

// versions are the names of versions that Kubernetes orders by their stability.
var versions = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// A located suite is a template of a test suite that knows its place in the project.
type located interface {
	machinery.Template
	locate(multiGroup bool, r *resource.Resource)
}

// A suiteStep is part of a command that may make a test suite: it replaces that of kubebuilder.
type suiteStep struct {
	step
	newSuite func() located
	resource *resource.Resource
	isNew    bool // the suite
}

func (s *suiteStep) BindFlags(flags *pflag.FlagSet) { s.bindFetchDeps(flags) }

func (s *suiteStep) InjectResource(r *resource.Resource) error {
	if !versions.MatchString(r.Version) {
		return fmt.Errorf("--version %q: must be like v1, v1beta1 or v2alpha1", r.Version)
	}
	if !token.IsIdentifier(r.Kind) {
		return fmt.Errorf("--kind %q: must be a name in Go, such as CronJob", r.Kind)
	}
	s.resource = r
	return nil
}

func (s *suiteStep) suite() located {
	suite := s.newSuite()
	suite.locate(s.config.IsMultiGroup(), s.resource)
	return suite
}

// PreScaffold finds out whether the command makes the suite.
func (s *suiteStep) PreScaffold(files machinery.Filesystem) error {
	there, err := afero.Exists(files.FS, s.suite().GetPath())
	s.isNew = !there
	return err
}

func (s *suiteStep) Scaffold(files machinery.Filesystem) error {
	suite := s.suite()
	made, err := afero.Exists(files.FS, suite.GetPath())
	if err != nil || !made || !s.isNew || s.testEnv == onEnvtest {
		return err
	}
	boilerplate, err := afero.ReadFile(files.FS, filepath.Join("hack", "boilerplate.go.txt"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return machinery.NewScaffold(files,
		machinery.WithConfig(s.config),
		machinery.WithBoilerplate(string(boilerplate)),
		machinery.WithResource(s.resource),
	).Execute(suite)
}

// done generates, and says what comes next. The version of the module of a kind of another project
// is that of --external-api-module.
func (s *suiteStep) done(next string) error {
	if s.resource.IsExternal() && s.resource.Module != "" && s.tidies && !s.plugin.renderOnly {
		if err := s.goCommand("get", s.resource.Module); err != nil {
			return err
		}
	}
	if err := s.finish(true); err != nil {
		return err
	}
	if next != "" {
		fmt.Fprintf(s.plugin.out, "Next: %s. Generate and test:\n\n  kapok generate\n  go test ./internal/...\n", next)
	}
	return nil
}

// An apiStep is part of kapok create api.
type apiStep struct{ suiteStep }

func (s *apiStep) Scaffold(files machinery.Filesystem) error {
	if s.resource.HasAPI() {
		if err := s.markStorage(files, s.resource); err != nil {
			return err
		}
		if err := s.matchBuilder(files, s.resource); err != nil {
			return err
		}
		if err := s.completeSample(files, s.resource); err != nil {
			return err
		}
		if err := s.addTimeTest(files, s.resource); err != nil {
			return err
		}
	}
	return s.suiteStep.Scaffold(files)
}

func (s *apiStep) PostScaffold() error {
	if !s.resource.HasAPI() {
		return s.done("")
	}
	return s.done("fields of the kind in " + strings.TrimPrefix(s.resource.Path, s.config.GetRepository()+"/") + ", then the controller")
}

// A webhookStep is part of kapok create webhook.
type webhookStep struct{ suiteStep }

// PreScaffold warns of a kind that the project does not have but Kubernetes does: kubebuilder takes
// it for that one.
func (s *webhookStep) PreScaffold(files machinery.Filesystem) error {
	if known, err := s.config.GetResources(); err == nil && s.resource.Core && len(known) > 0 && !slices.ContainsFunc(known, func(r resource.Resource) bool {
		return r.Group == s.resource.Group && r.Kind == s.resource.Kind
	}) {
		fmt.Fprintf(s.plugin.out, "WARN: %s/%s %s is the kind of Kubernetes; for one of this project, run kapok create api first\n", s.resource.Group, s.resource.Version, s.resource.Kind)
	}
	return s.suiteStep.PreScaffold(files)
}

func (s *webhookStep) PostScaffold() error { return s.done("the functions of the webhook") }
