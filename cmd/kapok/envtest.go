package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
)

func newEnvtest() *cobra.Command {
	c := &cobra.Command{
		Use:   "envtest DIR",
		Short: "Create a directory that replaces the binaries of controller-runtime's envtest",
		Long: `Create a directory that replaces the binaries of controller-runtime's envtest:
kube-apiserver, etcd and kubectl, which are all this program. A suite that uses
envtest runs with them unchanged.

Like kube-apiserver without controllers, this kube-apiserver collects no garbage and
does not remove deleted namespaces. ` + moreFlags + `=--controllers changes
that. Both programs end when their parent process ends.`,
		Example: `  KUBEBUILDER_ASSETS=$(kapok envtest path) go test ./...
  kapok envtest ./bin/k8s`,
		Args: oneArg("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0]) // each package's tests run in a directory of their own
			if err != nil {
				return failed(err)
			}
			if err := fillAssets(dir); err != nil {
				return failed(err)
			}
			fmt.Fprintf(c.OutOrStdout(), "Suites of envtest use Kapok with\n\n  %s\n", export("KUBEBUILDER_ASSETS", dir))
			return nil
		},
	}
	c.AddCommand(&cobra.Command{
		Use:   "path",
		Short: "Create such a directory in the user's cache and print its path",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cache, err := os.UserCacheDir()
			if err != nil {
				return failed(err)
			}
			dir := filepath.Join(cache, "kapok", "envtest", version())
			if err := fillAssets(dir); err != nil {
				return failed(err)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), dir)
			return failed(err)
		},
	})
	return c
}

// fillAssets puts this program into a directory under the names that envtest looks for. It replaces
// only files that it has created before.
func fillAssets(dir string) error {
	if err := checkDirectory("directory", dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	kapok := filepath.Join(dir, "kapok"+exeSuffix())
	names := []string{"kube-apiserver", "etcd", "kubectl"}
	for _, name := range append(names, "kapok") {
		name := filepath.Join(dir, name+exeSuffix())
		if _, err := os.Stat(name); err == nil && !isKapok(name) {
			return fmt.Errorf("%s exists and was not created by Kapok: remove it, or use another directory", name)
		}
	}
	if err := putCopy(self, kapok); err != nil {
		return err
	}
	for _, name := range names {
		if err := putLink(kapok, filepath.Join(dir, name+exeSuffix())); err != nil {
			return err
		}
	}
	return nil
}

func exeSuffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// putCopy makes a copy of a program, with its time, by which the copy is known the next time.
func putCopy(from, to string) error {
	source, err := os.Stat(from)
	if err != nil {
		return err
	}
	if there, err := os.Stat(to); err == nil && (os.SameFile(source, there) || same(source, there)) {
		return nil
	}
	return replace(to, func(scratch string) error {
		in, err := os.Open(from)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.OpenFile(scratch, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return errors.Join(err, out.Close())
		}
		return errors.Join(out.Close(), os.Chtimes(scratch, source.ModTime(), source.ModTime()))
	})
}

func same(a, b os.FileInfo) bool { return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) }

// putLink gives a program another name beside it: as a link, or, where the system lets it make
// none, as a copy.
func putLink(kapok, name string) error {
	program, err := os.Stat(kapok)
	if err != nil {
		return err
	}
	if there, err := os.Stat(name); err == nil && (os.SameFile(there, program) || same(there, program)) {
		return nil
	}
	return replace(name, func(scratch string) error {
		if os.Symlink(filepath.Base(kapok), scratch) == nil || os.Link(kapok, scratch) == nil {
			return nil
		}
		return putCopy(kapok, scratch)
	})
}

// isKapok reports whether a file is this program, in any version.
func isKapok(name string) bool {
	info, err := buildinfo.ReadFile(name)
	return err == nil && info.Path == "github.com/kapok-dev/kapok/cmd/kapok"
}

// replace creates a file under a temporary name and renames it, so that no other process reads an
// incomplete file.
func replace(name string, write func(scratch string) error) error {
	dir, err := os.MkdirTemp(filepath.Dir(name), ".kapok-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	scratch := filepath.Join(dir, filepath.Base(name))
	if err := write(scratch); err != nil {
		return err
	}
	return os.Rename(scratch, name)
}
