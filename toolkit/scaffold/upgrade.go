package scaffold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kubebuilder/v4/pkg/config"
)

const upgradeHelp = `Merge the scaffolds of this version into a project.

Usage:
  kapok upgrade [--from VERSION]

The project is scaffolded twice, in temporary directories: by the version that has made it, and by this one.
Git merges the differences between the two into the work tree and the index, and leaves conflicts there, as
git merge does. Without conflicts, go.mod is updated, and code and manifests are generated. Nothing is
committed: look at the changes by git diff HEAD. git reset --hard takes them back, but for files that are new and
generated. The work tree must be clean.

A file that you have removed stays removed. Files that are generated are not merged. To update a Helm chart,
run kapok edit --plugins=helm/v2-alpha afterwards.

A project of kubebuilder gets tests on kapoktest. To keep envtest, run kapok edit --test-env=envtest before.

Flags:
      --from string   what has made the project: kubebuilder@v4.10.1, kapok@v0.3.0, which Go downloads and
                      builds, or the path of such a program (default: the version in PROJECT)
  -h, --help          help for upgrade
`

// UpgradeOptions configure Upgrade.
type UpgradeOptions struct {
	// Self is the program that is run for each command of the scaffolds of this version.
	Self string
	// Args is the command line after the word upgrade.
	Args []string
	// Version and Source are those of Options.
	Version, Source string
	// Out receives what is done.
	Out io.Writer
}

// Files that generate writes.
const (
	definitionsDir = "config/crd/bases"
	roleFile       = "config/rbac/role.yaml"
	webhookFile    = "config/webhook/manifests.yaml"
)

// errConflicts is the error of an upgrade that has to be finished by hand.
var errConflicts = errors.New("there are conflicts: resolve them, then run git add, go mod tidy and kapok generate")

// Upgrade executes the command line kapok upgrade in the working directory.
func Upgrade(ctx context.Context, o UpgradeOptions) error {
	flags := pflag.NewFlagSet("upgrade", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	from := flags.String("from", "", "")
	switch err := flags.Parse(o.Args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(o.Out, upgradeHelp)
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	repo, err := openRepository(ctx)
	if err != nil {
		return err
	}
	known, err := readProject(".")
	if err != nil {
		return err
	}
	kept := settings{}
	if err := decode(known, pluginKey, &kept); err != nil {
		return err
	}
	if *from == "" {
		if *from, err = madeBy(known, kept); err != nil {
			return err
		}
	}
	temp, err := os.MkdirTemp("", "kapok-upgrade-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	older, err := installOlder(ctx, *from, filepath.Join(temp, "bin"), o.Out)
	if err != nil {
		return err
	}
	commands, err := upgradeCommands(known)
	if err != nil {
		return err
	}
	if err := warnOfPlugins(known, o.Out); err != nil {
		return err
	}
	// Directories have the same name: that of a project is in its files.
	name := known.GetProjectName()
	base, err := renderOlder(ctx, older, filepath.Join(temp, "base", name), commands)
	if err != nil {
		return err
	}
	theirs, err := render(ctx, o.Self, filepath.Join(temp, "theirs", name), commands)
	if err != nil {
		return err
	}
	requirements := theirs["go.mod"]
	for _, rendering := range []map[string][]byte{base, theirs} {
		maps.DeleteFunc(rendering, func(name string, _ []byte) bool { return !mergeable(filepath.ToSlash(name)) })
	}
	clean, changed, err := repo.merge(ctx, temp, side{*from, base}, side{"kapok upgrade", theirs}, o.Out)
	if err != nil {
		return err
	}
	if err := raise("go.mod", requirements); err != nil {
		return err
	}
	s := step{plugin: &kapokPlugin{version: o.Version, source: o.Source}, testEnv: kept.TestEnv}
	if err := s.requireKapok(); err != nil {
		return err
	}
	if !clean {
		return errConflicts
	}
	if !changed {
		fmt.Fprintln(o.Out, "The scaffolds have not changed.")
	}
	return finishUpgrade(ctx, &s, o.Out)
}

// finishUpgrade does what follows a merge without conflicts. The merge stays if it fails.
func finishUpgrade(ctx context.Context, s *step, out io.Writer) error {
	const by = "the scaffolds are merged, but %w\nMend this, then run go mod tidy and kapok generate"
	if err := s.goCommand("mod", "tidy"); err != nil {
		return fmt.Errorf(by, err)
	}
	result, err := generate.Run(ctx, generate.Options{})
	if err != nil {
		return fmt.Errorf(by, err)
	}
	for _, name := range result.Written {
		fmt.Fprintln(out, name)
	}
	if err := listWebhooks(); err != nil {
		return err
	}
	fmt.Fprintln(out, "The project has the scaffolds of this version. Look at the changes (git diff HEAD), test, and commit them.")
	return nil
}

// madeBy returns what has made a project, by its PROJECT file. PROJECT of an unpublished build of
// Kapok has only the version of kubebuilder's scaffolds, but its go.mod requires Kapok.
func madeBy(c config.Config, kept settings) (string, error) {
	if kept.Version != "" {
		return "kapok@" + kept.Version, nil
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return "", err
	}
	if v := c.GetCliVersion(); v != "" && !requires(mod, module) {
		return "kubebuilder@v" + strings.TrimPrefix(v, "v"), nil
	}
	return "", errors.New("PROJECT does not tell which version has made the project: name it with --from, such as kubebuilder@v4.10.1 or the path of the older kapok-toolkit")
}

// upgradeCommands returns the command lines that scaffold a project.
func upgradeCommands(c config.Config) ([][]string, error) {
	resources, err := c.GetResources()
	if err != nil {
		return nil, err
	}
	commands, err := commandsOf(c, resources, ".")
	if err != nil {
		return nil, err
	}
	edits, err := editsOf(c)
	if err != nil {
		return nil, err
	}
	for _, edit := range edits {
		if !slices.ContainsFunc(edit, func(word string) bool { return strings.Contains(word, "helm") }) {
			commands = append(commands, edit)
		}
	}
	return commands, nil
}

// mergeable reports whether a file of a rendering is merged: one that is written once and then
// edited.
func mergeable(name string) bool {
	if strings.HasPrefix(path.Base(name), "zz_generated.") || path.Dir(name) == definitionsDir {
		return false
	}
	top, _, _ := strings.Cut(name, "/")
	return !slices.Contains([]string{".git", "bin", "dist"}, top) && !slices.Contains([]string{"go.mod", "go.sum", roleFile, webhookFile}, name)
}
