package scaffold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
)

const deleteHelp = `Remove a kind, or its webhooks, from a project.

Usage:
  kapok delete api --group GROUP --version VERSION --kind KIND [--force]
  kapok delete webhook --group GROUP --version VERSION --kind KIND [--force]

The project is scaffolded twice, in temporary directories: with the kind and without it. What differs is removed from the
project: files, and lines of files such as cmd/main.go. Other lines of these files stay as they are. Then code and
manifests are generated. If a file that would be removed has changes of yours, nothing is removed, unless there is
--force. A command that fails changes nothing.

Flags:
      --force            also remove files with changes
      --group string     group of the kind
  -h, --help             help for delete
      --kind string      the kind
      --version string   version of the kind
`

// A deletion is a command line of kapok delete.
type deletion struct {
	self                 string
	what                 string // api or webhook
	group, version, kind string
	force                bool
	out                  io.Writer
}

// Delete executes the command line kapok delete, whose arguments come after this word, in the
// working directory. It runs the program self for each command of the scaffolds.
func Delete(ctx context.Context, self string, args []string, out io.Writer) error {
	d := &deletion{self: self, out: out}
	flags := pflag.NewFlagSet("delete", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&d.group, "group", "", "")
	flags.StringVar(&d.version, "version", "", "")
	flags.StringVar(&d.kind, "kind", "", "")
	flags.BoolVar(&d.force, "force", false, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(out, deleteHelp)
		return nil
	case err != nil:
		return err
	case flags.NArg() != 1 || flags.Arg(0) != "api" && flags.Arg(0) != "webhook":
		return errors.New("want kapok delete api or kapok delete webhook")
	case d.version == "" || d.kind == "":
		return errors.New("--group, --version and --kind are required")
	}
	d.what = flags.Arg(0)
	return whole(func() error { return d.run(ctx) })
}

func (d *deletion) run(ctx context.Context) error {
	known, err := readProject(".")
	if err != nil {
		return err
	}
	with, err := known.GetResources()
	if err != nil {
		return err
	}
	without, err := d.remaining(with)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "kapok-delete-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	var rendered [2]map[string][]byte
	for i, resources := range [][]resource.Resource{with, without} {
		commands, err := commandsOf(known, resources, ".")
		if err != nil {
			return err
		}
		// Directories have the same name: that of a project is in its files.
		dir := filepath.Join(temp, fmt.Sprint(i), known.GetProjectName())
		if rendered[i], err = render(ctx, d.self, dir, commands); err != nil {
			return err
		}
	}
	changes, err := d.merge(ctx, temp, rendered[0], rendered[1])
	if err != nil {
		return err
	}
	if err := d.apply(changes); err != nil {
		return err
	}
	return d.generate(ctx, rendered[1])
}

// remaining returns the resources without the one that is deleted, or without its webhooks.
func (d *deletion) remaining(all []resource.Resource) ([]resource.Resource, error) {
	is := func(r resource.Resource) bool {
		return r.Group == d.group && r.Version == d.version && r.Kind == d.kind
	}
	at := slices.IndexFunc(all, is)
	if at < 0 {
		var names []string
		for _, r := range all {
			names = append(names, fmt.Sprintf("--group %s --version %s --kind %s", r.Group, r.Version, r.Kind))
		}
		if len(names) == 0 {
			return nil, errors.New("the project has no kinds")
		}
		return nil, fmt.Errorf("the project has no such kind, but:\n  %s", strings.Join(names, "\n  "))
	}
	if d.what == "webhook" {
		if createWebhook(all[at]) == nil {
			return nil, fmt.Errorf("%s/%s %s has no webhooks", d.group, d.version, d.kind)
		}
		rest := slices.Clone(all)
		rest[at].Webhooks = nil
		return rest, nil
	}
	rest := slices.DeleteFunc(slices.Clone(all), is)
	for _, r := range rest {
		if r.Group != d.group || r.Kind != d.kind || r.Webhooks == nil || !slices.Contains(r.Webhooks.Spoke, d.version) {
			continue
		}
		return nil, fmt.Errorf("%s converts from and to %s: run kapok delete webhook --group %s --version %s --kind %s first",
			r.Version, d.version, d.group, r.Version, d.kind)
	}
	return rest, nil
}

// A change is what becomes of a file: its new content, nil if it is removed.
type change struct {
	name    string
	content []byte
}

// merge returns the changes that make the difference between two renderings in the project.
func (d *deletion) merge(ctx context.Context, temp string, with, without map[string][]byte) ([]change, error) {
	var changes []change
	var edited, conflicts []string
	for _, name := range slices.Sorted(maps.Keys(with)) {
		was := with[name]
		is, stays := without[name]
		if stays && bytes.Equal(was, is) {
			continue
		}
		here, err := os.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		if filepath.ToSlash(name) == webhookList {
			here = bytes.Replace(here, []byte(webhooksMissing), []byte(webhooksListed), 1)
		}
		switch {
		case !stays && !d.force && !bytes.Equal(here, was):
			edited = append(edited, name)
			continue
		case !stays:
			changes = append(changes, change{name, nil})
			continue
		}
		switch merged, clean, err := mergeFile(ctx, temp, here, was, is); {
		case err != nil:
			return nil, fmt.Errorf("merge %s: %w", name, err)
		case !clean:
			conflicts = append(conflicts, name)
		case !bytes.Equal(merged, here):
			changes = append(changes, change{name, merged})
		}
	}
	switch {
	case len(conflicts) > 0:
		return nil, fmt.Errorf("your own changes in these files are next to lines that belong to the kind. Remove the lines of the kind by hand, and run the command again:\n  %s", strings.Join(conflicts, "\n  "))
	case len(edited) > 0:
		return nil, fmt.Errorf("these files have changes of yours. To remove them nevertheless, use --force:\n  %s", strings.Join(edited, "\n  "))
	}
	return changes, nil
}

// apply makes the changes.
func (d *deletion) apply(changes []change) error {
	for _, c := range changes {
		if c.content != nil {
			if err := os.WriteFile(c.name, c.content, 0o644); err != nil {
				return err
			}
			fmt.Fprintf(d.out, "  %s\n", c.name)
			continue
		}
		if err := os.Remove(c.name); err != nil {
			return err
		}
		fmt.Fprintf(d.out, "  %s (removed)\n", c.name)
	}
	for _, c := range changes {
		if c.content == nil {
			if err := d.removeEmpty(filepath.Dir(c.name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergeFile merges the change from one text to another into a third one, as git does. It is not
// clean if the third one differs in the same lines.
func mergeFile(ctx context.Context, temp string, here, was, is []byte) (merged []byte, clean bool, err error) {
	if bytes.Equal(here, was) {
		return is, true, nil
	}
	args := []string{"merge-file", "-p", "-q"}
	for name, text := range map[string][]byte{"here": here, "was": was, "is": is} {
		if err := os.WriteFile(filepath.Join(temp, name), text, 0o600); err != nil {
			return nil, false, err
		}
	}
	for _, name := range []string{"here", "was", "is"} {
		args = append(args, filepath.Join(temp, name))
	}
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return out, true, nil
	case errors.As(err, &ended) && ended.ExitCode() > 0 && ended.ExitCode() < 128: // the number of conflicts
		return nil, false, nil
	case errors.Is(err, exec.ErrNotFound):
		return nil, false, errors.New("the file has changes of yours, and git, which merges them, is not installed")
	}
	return nil, false, err
}

// removeEmpty removes a directory and those above it if they are empty. Deep copies alone count as
// empty: their types are gone.
func (d *deletion) removeEmpty(dir string) error {
	for ; dir != "."; dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if len(entries) == 1 && entries[0].Name() == "zz_generated.deepcopy.go" {
			path := filepath.Join(dir, entries[0].Name())
			if err := os.Remove(path); err != nil {
				return err
			}
			fmt.Fprintf(d.out, "  %s (removed)\n", path)
			entries = nil
		}
		if len(entries) > 0 {
			return nil
		}
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	return nil
}

// generate generates code and manifests, removes definitions of types that are gone, and makes
// manifests that nothing generates any more what they were in the scaffolds.
func (d *deletion) generate(ctx context.Context, scaffolds map[string][]byte) error {
	result, err := generate.Run(ctx, generate.Options{})
	if err != nil {
		return fmt.Errorf("generate code and manifests:\n%w", err)
	}
	for _, name := range result.Written {
		fmt.Fprintf(d.out, "  %s\n", name)
	}
	var stale []change
	for _, name := range result.Orphans {
		stale = append(stale, change{name, nil})
	}
	for _, name := range []string{roleFile, webhookFile} {
		name = filepath.FromSlash(name)
		here, err := os.ReadFile(name)
		if slices.Contains(result.ManifestDirs, filepath.Dir(name)) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if was := scaffolds[name]; !bytes.Equal(was, here) {
			stale = append(stale, change{name, was})
		}
	}
	if err := d.apply(stale); err != nil {
		return err
	}
	return listWebhooks()
}
