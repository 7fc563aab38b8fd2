package scaffold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A repository is that of git to which the project in the working directory belongs.
type repository struct {
	top    string // directory
	prefix string // path of the project below it, with slashes, "" or with one at its end
}

// openRepository finds the repository, whose work tree must be clean and have a commit.
func openRepository(ctx context.Context) (*repository, error) {
	r := &repository{}
	lines, err := r.git(ctx, nil, "rev-parse", "--show-toplevel", "--show-prefix")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("git, which merges, is not installed")
	case err != nil:
		return nil, fmt.Errorf("the project must be in a repository of git: %w", err)
	}
	top, prefix, _ := strings.Cut(lines, "\n")
	r.top, r.prefix = filepath.FromSlash(top), strings.TrimSpace(prefix)
	if _, err := r.git(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		return nil, errors.New("the repository has no commit: commit the project first")
	}
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD"} {
		if _, err := r.git(ctx, nil, "rev-parse", "--verify", "--quiet", name); err == nil {
			return nil, fmt.Errorf("git has not finished something else (%s): finish or abort it first", name)
		}
	}
	switch changed, err := r.git(ctx, nil, "status", "--porcelain", "--untracked-files=normal"); {
	case err != nil:
		return nil, err
	case changed != "":
		return nil, fmt.Errorf("the work tree is not clean: commit or stash these changes first:\n%s", changed)
	}
	return r, nil
}

// git runs git and returns what it prints, without the end of the last line.
func (r *repository) git(ctx context.Context, env []string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir = r.top
	c.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return stdout.String(), fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimRight(stdout.String(), "\n"), nil
}

// A side of a merge is a rendering of the project with the name that it has in the marks of
// conflicts.
type side struct {
	name  string
	files map[string][]byte // by their paths below the project
}

// merge merges the changes from one side to another into the work tree and the index. It reports
// whether there are no conflicts, and whether anything has changed. Files that HEAD does not have
// any more stay away.
func (r *repository) merge(ctx context.Context, temp string, base, theirs side, out io.Writer) (clean, changed bool, err error) {
	was, err := r.tree(ctx, filepath.Join(temp, "was"), base.files)
	if err != nil {
		return false, false, err
	}
	is, err := r.tree(ctx, filepath.Join(temp, "is"), theirs.files)
	if err != nil {
		return false, false, err
	}
	head, err := r.git(ctx, nil, "rev-parse", "HEAD")
	if err != nil {
		return false, false, err
	}
	names := []string{"GITHEAD_" + head + "=HEAD", "GITHEAD_" + is + "=" + theirs.name, "GITHEAD_" + was + "=" + base.name}
	said, err := r.git(ctx, names, "merge-recursive", was, "--", head, is)
	var ended *exec.ExitError
	if err != nil && (!errors.As(err, &ended) || ended.ExitCode() != 1) {
		return false, false, err
	}
	if err := r.keepRemoved(ctx); err != nil {
		return false, false, err
	}
	unmerged, err := r.git(ctx, nil, "diff", "--name-only", "--diff-filter=U")
	if err != nil {
		return false, false, err
	}
	if unmerged != "" {
		fmt.Fprintln(out, said)
		fmt.Fprintf(out, "Conflicts:\n  %s\n", strings.ReplaceAll(unmerged, "\n", "\n  "))
		return false, true, nil
	}
	list, err := r.git(ctx, nil, "diff", "--cached", "--name-status")
	if err != nil {
		return false, false, err
	}
	if list != "" {
		fmt.Fprintln(out, list)
	}
	return true, list != "", nil
}

// tree writes files into the object store, and returns the name of the tree with the project that
// they are.
func (r *repository) tree(ctx context.Context, dir string, files map[string][]byte) (string, error) {
	root := filepath.Join(dir, "files", filepath.FromSlash(r.prefix))
	for name, data := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return "", err
		}
	}
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	if _, err := r.git(ctx, env, "--work-tree="+filepath.Join(dir, "files"), "-c", "core.autocrlf=false", "add", "--all", "--force"); err != nil {
		return "", err
	}
	return r.git(ctx, env, "write-tree")
}

// keepRemoved resolves the conflicts of files that the project has removed and the scaffolds have
// changed: they stay removed.
func (r *repository) keepRemoved(ctx context.Context) error {
	list, err := r.git(ctx, nil, "ls-files", "--unmerged", "-z")
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	var paths []string
	for _, entry := range strings.Split(strings.TrimRight(list, "\x00"), "\x00") {
		if entry == "" {
			continue
		}
		about, path, _ := strings.Cut(entry, "\t")
		if strings.HasSuffix(about, " 2") {
			ours[path] = true
		}
		paths = append(paths, path)
	}
	for _, path := range paths {
		if ours[path] {
			continue
		}
		ours[path] = true // once
		if _, err := r.git(ctx, nil, "rm", "--force", "--quiet", "--", path); err != nil {
			return err
		}
	}
	return nil
}

// replace replaces the files of the project that git knows by those of another directory. It
// changes nothing if a file that git does not know is in the way, as nothing could bring that back.
func (r *repository) replace(ctx context.Context, dir string) error {
	list, err := r.git(ctx, nil, "ls-files", "-z", "--", r.project())
	if err != nil {
		return err
	}
	old := strings.FieldsFunc(list, func(c rune) bool { return c == 0 })
	if err := r.refuseToOverwrite(dir, old); err != nil {
		return err
	}
	if err := r.swap(dir, old); err != nil {
		return fmt.Errorf("%w\nThe project is replaced in part: git reset --hard brings it back", err)
	}
	return nil
}

// refuseToOverwrite returns an error if a file of a directory would overwrite one in the project
// that is not among those that git knows.
func (r *repository) refuseToOverwrite(dir string, known []string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		there := filepath.Join(r.project(), name)
		if slices.Contains(known, filepath.ToSlash(there)) {
			return nil
		}
		switch info, err := os.Lstat(filepath.Join(r.top, there)); {
		case err == nil && !info.IsDir():
			return fmt.Errorf("git ignores %s, which the new project would overwrite: move or remove it first", there)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		return nil
	})
}

// swap removes files of the project, and copies those of a directory into it.
func (r *repository) swap(dir string, old []string) error {
	project := filepath.Join(r.top, r.project())
	for _, name := range old {
		path := filepath.Join(r.top, filepath.FromSlash(name))
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for parent := filepath.Dir(path); parent != project && os.Remove(parent) == nil; parent = filepath.Dir(parent) { // that is empty
		}
	}
	return os.CopyFS(project, os.DirFS(dir))
}

// project returns the path of the project below the repository.
func (r *repository) project() string {
	if r.prefix == "" {
		return "."
	}
	return filepath.FromSlash(strings.TrimSuffix(r.prefix, "/"))
}
