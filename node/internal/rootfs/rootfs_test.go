package rootfs

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// archive makes an archive from lines such as "d etc", "f etc/passwd root", "l etc/link target", "h
// etc/hard etc/passwd", "c dev/null".
func archive(t testing.TB, lines ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, line := range lines {
		words := append(strings.SplitN(line, " ", 3), "")
		h := &tar.Header{Name: words[1], Mode: 0o644, ModTime: time.Unix(1e9, 0), Format: tar.FormatPAX}
		switch words[0] {
		case "d":
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		case "f":
			h.Typeflag, h.Size = tar.TypeReg, int64(len(words[2]))
		case "x":
			h.Typeflag, h.Size, h.Mode = tar.TypeReg, int64(len(words[2])), 0o6755
		case "l":
			h.Typeflag, h.Linkname = tar.TypeSymlink, words[2]
		case "h":
			h.Typeflag, h.Linkname = tar.TypeLink, words[2]
		case "c":
			h.Typeflag = tar.TypeChar
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(words[2])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpack unpacks layers into a directory below another one, and returns both.
func unpack(t testing.TB, limits Limits, layers ...[]byte) (dir, outside string, err error) {
	t.Helper()
	outside = t.TempDir()
	dir = filepath.Join(outside, "root")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	tree := New(root, limits)
	for _, l := range layers {
		if err := tree.Apply(bytes.NewReader(l)); err != nil {
			return dir, outside, err
		}
	}
	return dir, outside, tree.Finish()
}

// list describes the files of a directory.
func list(t testing.TB, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			all = append(all, name+"/")
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			all = append(all, name+" -> "+to)
		default:
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all = append(all, name+" "+string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var large = Limits{Bytes: 1 << 30, Entries: 1000}

func TestLayers(t *testing.T) {
	type layers [][]string
	for name, test := range map[string]struct {
		layers layers
		want   []string
	}{
		"files":             {layers{{"d etc", "f etc/a 1", "l etc/b a", "h etc/c etc/a", "c dev", "f ./x/y/z 2"}}, []string{"etc/", "etc/a 1", "etc/b -> a", "etc/c 1", "x/", "x/y/", "x/y/z 2"}},
		"a later file":      {layers{{"f a 1", "l b a"}, {"f a 2", "f b 3"}}, []string{"a 2", "b 3"}},
		"directory to file": {layers{{"f a/b/c 1"}, {"f a 2"}}, []string{"a 2"}},
		"file to directory": {layers{{"f a 1"}, {"d a", "f a/b 2"}}, []string{"a/", "a/b 2"}},
		"a directory stays": {layers{{"f a/b 1"}, {"d a", "f a/c 2"}}, []string{"a/", "a/b 1", "a/c 2"}},
		"whiteout":          {layers{{"f a/b 1", "f a/c 1"}, {"f a/.wh.b "}}, []string{"a/", "a/c 1"}},
		"of a directory":    {layers{{"f a/b/c 1"}, {"f a/.wh.b "}}, []string{"a/"}},
		"of what is not":    {layers{{"f a/b 1"}, {"f a/.wh.c "}}, []string{"a/", "a/b 1"}},
		"not of this layer": {layers{{"f a 1"}, {"f a 2", "f .wh.a "}}, []string{"a 2"}},
		"before its file":   {layers{{"f a 1"}, {"f .wh.a ", "f a 2"}}, []string{"a 2"}},
		"opaque":            {layers{{"f a/b 1", "f a/c/d 1", "f e 1"}, {"f a/c/f 2", "f a/.wh..wh..opq "}}, []string{"a/", "a/c/", "a/c/f 2", "e 1"}},
		"opaque first":      {layers{{"f a/b 1"}, {"f a/.wh..wh..opq ", "f a/b 2"}}, []string{"a/", "a/b 2"}},
		"through a link":    {layers{{"d usr/lib", "l lib usr/lib"}, {"f lib/x 1"}}, []string{"lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/x 1"}},
		"absolute link":     {layers{{"d run", "l var/run /run"}, {"f var/run/x 1", "h y var/run/x"}}, []string{"run/", "run/x 1", "var/", "var/run -> /run", "y 1"}},
		"whiteout by link":  {layers{{"f usr/lib/x 1", "l lib usr/lib"}, {"f lib/.wh.x "}}, []string{"lib -> usr/lib", "usr/", "usr/lib/"}},
		"link to itself":    {layers{{"f a 1", "h a a"}}, []string{"a 1"}},
		"link to a link":    {layers{{"l a nowhere", "h b a"}}, []string{"a -> nowhere", "b -> nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			var all [][]byte
			for _, l := range test.layers {
				all = append(all, archive(t, l...))
			}
			dir, _, err := unpack(t, large, all...)
			if got := list(t, dir); err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// TestEscapes unpacks archives that would write, link or remove outside of the directory. Some are
// errors, and others write below it.
func TestEscapes(t *testing.T) {
	for _, lines := range [][]string{
		{"f ../secret bad"},
		{"f ../../../../../../secret bad"},
		{"f /secret bad"},
		{"f a/../../secret bad"},
		{"l a ..", "f a/secret bad"},
		{"l a ../..", "f a/secret bad"},
		{"l a OUTSIDE", "f a/secret bad"},
		{"l a OUTSIDE/secret", "f a bad"},
		{"l a OUTSIDE", "l b a", "f b/secret bad"},
		{"l a ../secret", "h b a", "f b bad"},
		{"h a ../secret", "f a bad"},
		{"h a OUTSIDE/secret", "f a bad"},
		{"l a ..", "h b a/secret", "f b bad"},
		{"l a OUTSIDE", "d a"},
		{"l a ..", "f a/.wh.secret "},
		{"l a ..", "f a/.wh..wh..opq "},
		{"f ../.wh.secret "},
		{"f .wh... "},
		{"f .wh.. "},
		{"f .wh. "},
		{"l a a", "f a/b bad"},
		{"l a b", "l b a", "f b/c bad"},
		{"l . .."},
		{"f . bad"},
		{"h a ."},
	} {
		dir, outside, err := unpack(t, large, nil)
		if err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i := range lines {
			lines[i] = strings.ReplaceAll(lines[i], "OUTSIDE", outside)
		}
		tree := New(root, large)
		err = tree.Apply(bytes.NewReader(archive(t, lines...)))
		root.Close()
		text, readErr := os.ReadFile(filepath.Join(outside, "secret"))
		if readErr != nil || string(text) != "secret" {
			t.Errorf("%q: the file outside has %q, %v (%v)", lines, text, readErr, err)
		}
		entries, _ := os.ReadDir(outside)
		if len(entries) != 2 {
			t.Errorf("%q: outside are %v, want the secret and the root", lines, entries)
		}
	}
}

func TestPermissions(t *testing.T) {
	dir, _, err := unpack(t, large, archive(t, "x a/program text", "d b"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "a/program"))
	if err != nil || info.Mode() != 0o755 || !info.ModTime().Equal(time.Unix(1e9, 0)) {
		t.Errorf("the file has %v, %v, %v, want 0755 and the time of the archive", info.Mode(), info.ModTime(), err)
	}
	info, err = os.Stat(filepath.Join(dir, "b"))
	if err != nil || info.Mode().Perm() != 0o755 || !info.ModTime().Equal(time.Unix(1e9, 0)) {
		t.Errorf("the directory has %v, %v, %v", info.Mode(), info.ModTime(), err)
	}
}

func TestLimits(t *testing.T) {
	data := archive(t, "f a 123", "f b 456")
	for _, test := range []struct {
		limits Limits
		fails  bool
	}{
		{Limits{int64(len(data)), 2}, false},
		{Limits{int64(len(data)) - 1, 2}, true},
		{Limits{int64(len(data)), 1}, true},
	} {
		_, _, err := unpack(t, test.limits, data)
		if errors.Is(err, ErrTooLarge) != test.fails || !test.fails && err != nil {
			t.Errorf("%+v: got %v", test.limits, err)
		}
	}
	if _, _, err := unpack(t, Limits{int64(len(data)) + 100, 10}, data, data); !errors.Is(err, ErrTooLarge) {
		t.Errorf("the limit of all layers: got %v", err)
	}
	// A sparse file of 1 GiB in an archive of some KiB.
	dir, _, err := unpack(t, Limits{1 << 20, 10}, sparse(1<<30))
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("a sparse file: got %v, with %d files", err, len(list(t, dir)))
	}
}

// sparse returns an archive with a file that has only a hole, in the format of GNU tar.
func sparse(size int64) []byte {
	b := make([]byte, 512+1024)
	copy(b, "sparse")
	copy(b[100:], "0000644\x00")
	copy(b[108:], "0000000\x000000000\x0000000000000\x0000000000000\x00")
	b[156] = 'S'
	copy(b[257:], "ustar  \x00")
	copy(b[386:], fmt.Sprintf("%011o\x00%011o\x00", size, 0)) // one part, empty, at the end
	copy(b[483:], fmt.Sprintf("%011o\x00", size))
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

func TestResolve(t *testing.T) {
	dir, _, err := unpack(t, large, archive(t, "d usr/bin", "l bin usr/bin", "l abs /usr/bin", "l up ../../../usr", "l loop loop", "l in/up ../bin", "f usr/bin/x 1"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, want := range map[string]string{
		"bin/x": "usr/bin/x", "/abs/x": "usr/bin/x", "up/bin": "usr/bin", "in/up/x": "usr/bin/x", "bin/../x": "usr/x", "../../x": "x",
		"none/x": "none/x", "": ".", "/": ".", "abs/..": "usr",
	} {
		if got, err := Resolve(root, name); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", name, got, err, want)
		}
	}
	if got, err := Resolve(root, "loop/x"); err == nil {
		t.Errorf("a loop: got %q", got)
	}
}

// FuzzApply unpacks any bytes: nothing outside of the directory changes.
func FuzzApply(f *testing.F) {
	f.Add(archive(f, "d etc", "f etc/a 1", "l etc/b ../..", "f etc/b/secret bad", "h x etc/a", "f .wh.etc "))
	f.Add(sparse(100))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, outside, err := unpack(t, Limits{Bytes: 1 << 20, Entries: 100}, data)
		text, readErr := os.ReadFile(filepath.Join(outside, "secret"))
		entries, _ := os.ReadDir(outside)
		if readErr != nil || string(text) != "secret" || len(entries) != 2 {
			t.Errorf("outside: %q, %v, %v (%v)", text, readErr, entries, err)
		}
	})
}
