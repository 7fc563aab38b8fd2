package powercut

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// mount mounts a disk, or skips the test if that is not possible.
func mount(t *testing.T, d *Disk, dir string) (unmount func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("there is no FUSE: %v", err)
	}
	end, err := d.Mount(dir)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENODEV) {
		t.Skipf("FUSE cannot be used: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	once := false
	unmount = func() {
		if once {
			return
		}
		once = true
		if err := end(); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}
	t.Cleanup(unmount)
	return unmount
}

// outcomes collects the states of files after power cuts with many seeds.
func outcomes(t *testing.T, lies bool, before, then func(dir string), look func(dir string) string) []string {
	var all []string
	for seed := range uint64(40) {
		d, dir := NewDisk(seed, lies), t.TempDir()
		unmount := mount(t, d, dir)
		before(dir)
		then(dir)
		d.Cut()
		if err := os.WriteFile(filepath.Join(dir, "late"), nil, 0o600); err == nil {
			t.Fatal("a file can be created without power")
		}
		unmount()
		d.Restart(ByChance)
		unmount = mount(t, d, dir)
		if found := look(dir); !slices.Contains(all, found) {
			all = append(all, found)
		}
		unmount()
	}
	slices.Sort(all)
	return all
}

// TestDisk checks that synced data remains after a power cut, and that unsynced data may, as a
// whole or in part.
func TestDisk(t *testing.T) {
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	sync := func(name string) {
		f, err := os.Open(name)
		must(err)
		must(errors.Join(f.Sync(), f.Close()))
	}
	write := func(name, text string) { must(os.WriteFile(name, []byte(text), 0o600)) }
	read := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			return "none"
		}
		return string(data)
	}
	nothing := func(string) {}
	for name, c := range map[string]struct {
		lies         bool
		before, then func(dir string)
		look         func(dir string) string
		want         []string // all possible outcomes
	}{
		"what is synced stays": {
			before: func(dir string) { write(dir+"/a", "1"); sync(dir + "/a"); sync(dir) }, then: nothing,
			look: func(dir string) string { return read(dir + "/a") }, want: []string{"1"},
		},
		"content without a sync": {
			before: func(dir string) { write(dir+"/a", "1"); sync(dir) }, then: nothing,
			look: func(dir string) string { return read(dir + "/a") }, want: []string{"", "\x00", "1"},
		},
		"a name without a sync of its directory": {
			before: func(dir string) { write(dir+"/a", "1"); sync(dir + "/a") }, then: nothing,
			look: func(dir string) string { return read(dir + "/a") }, want: []string{"1", "none"},
		},
		"a rename is done or not": {
			before: func(dir string) {
				write(dir+"/a", "1")
				write(dir+"/b", "2")
				sync(dir + "/a")
				sync(dir + "/b")
				sync(dir)
			},
			then: func(dir string) { must(os.Rename(dir+"/b", dir+"/a")) },
			look: func(dir string) string { return read(dir+"/a") + read(dir+"/b") }, want: []string{"12", "2none"},
		},
		"a removal is done or not": {
			before: func(dir string) { write(dir+"/a", "1"); sync(dir + "/a"); sync(dir) },
			then:   func(dir string) { must(os.Remove(dir + "/a")) },
			look:   func(dir string) string { return read(dir + "/a") }, want: []string{"1", "none"},
		},
		"a directory whose parent is not synced": {
			before: nothing,
			then: func(dir string) {
				must(os.Mkdir(dir+"/d", 0o700))
				write(dir+"/d/a", "1")
				sync(dir + "/d/a")
				sync(dir + "/d")
			},
			look: func(dir string) string { return read(dir + "/d/a") }, want: []string{"1", "none"},
		},
		"a shorter file": {
			before: func(dir string) { write(dir+"/a", "12"); sync(dir + "/a"); sync(dir) },
			then:   func(dir string) { must(os.Truncate(dir+"/a", 1)) },
			look:   func(dir string) string { return strings.ReplaceAll(read(dir+"/a"), "\x00", "2") }, want: []string{"1", "12"},
		},
		"syncs that lie": {
			lies:   true,
			before: func(dir string) { write(dir+"/a", "1"); sync(dir + "/a"); sync(dir) }, then: nothing,
			look: func(dir string) string { return read(dir + "/a") }, want: []string{"", "\x00", "1", "none"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomes(t, c.lies, c.before, c.then, c.look); !slices.Equal(got, c.want) {
				t.Errorf("after the power was cut there may be %q, want %q", got, c.want)
			}
		})
	}
	t.Run("sectors", func(t *testing.T) {
		torn := outcomes(t, false,
			func(dir string) { write(dir+"/a", strings.Repeat("1", 3*sectorSize)); sync(dir + "/a"); sync(dir) },
			func(dir string) {
				f, err := os.OpenFile(dir+"/a", os.O_WRONLY, 0)
				must(err)
				_, err = f.WriteString(strings.Repeat("2", 3*sectorSize))
				must(errors.Join(err, f.Close()))
			},
			func(dir string) string {
				data := []byte(read(dir + "/a"))
				for i := range 3 {
					if n := bytes.Count(data[i*sectorSize:(i+1)*sectorSize], []byte("1")); n != 0 && n != sectorSize {
						t.Errorf("%d bytes of a sector are old", n)
					}
				}
				return string(data[0]) + string(data[sectorSize]) + string(data[2*sectorSize])
			})
		if !slices.Contains(torn, "111") || !slices.Contains(torn, "222") || len(torn) < 4 {
			t.Errorf("the sectors are %q", torn)
		}
	})
}

// TestCutAfter checks that the power is cut at the chosen change, of which a part may be done.
func TestCutAfter(t *testing.T) {
	d, dir := NewDisk(1, false), t.TempDir()
	unmount := mount(t, d, dir)
	f, err := os.Create(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	d.CutAfter(2)
	for i := range 4 {
		if _, err := f.WriteString("text"); (err == nil) != (i < 2) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	<-d.Off()
	f.Close()
	unmount()
}
