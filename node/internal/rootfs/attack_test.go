package rootfs

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// TestDeepDirectories nests directories by links, deeper than a path can be: RemoveAll has a
// descriptor open for each level.
func TestDeepDirectories(t *testing.T) {
	deep := strings.Repeat("d/", 50)
	lines := []string{"d " + deep, "l l0 " + deep}
	for i := range 9 {
		from, to := "l"+string(rune('0'+i)), "l"+string(rune('1'+i))
		lines = append(lines, "d "+from+"/"+deep, "l "+to+" "+from+"/"+deep)
	}
	_, _, err := unpack(t, Limits{1 << 30, 1000}, archive(t, lines...))
	if !errors.Is(err, errDeep) {
		t.Errorf("got %v, want %v", err, errDeep)
	}
}

// TestImpliedDirectories has few entries with many directories above them, which count as entries.
func TestImpliedDirectories(t *testing.T) {
	var lines []string
	for i := range 10 {
		lines = append(lines, "f "+strings.Repeat(string(rune('a'+i))+"/", 50)+"file x")
	}
	if _, _, err := unpack(t, Limits{1 << 30, 100}, archive(t, lines...)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want %v", err, ErrTooLarge)
	}
	if _, _, err := unpack(t, Limits{1 << 30, 510}, archive(t, lines...)); err != nil {
		t.Error(err)
	}
}

// TestRepeatedWhiteouts repeats whiteouts of a directory, between which it gets files and is
// replaced.
func TestRepeatedWhiteouts(t *testing.T) {
	below := archive(t, "d d/sub/deep", "f d/old x", "f d/sub/old x")
	dir, _, err := unpack(t, Limits{1 << 20, 100}, below, archive(t,
		"f d/new x", "f d/.wh..wh..opq", "f d/sub/new x", "f d/.wh..wh..opq", "f .wh.d", "l d elsewhere", "d d", "f d/last x", "f d/.wh..wh..opq"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := filepath.Glob(filepath.Join(dir, "d", "*")); err != nil || len(got) != 1 || filepath.Base(got[0]) != "last" {
		t.Errorf("got %v, %v, want last", got, err)
	}
	// The directories that are removed are forgotten, with those below them.
	if _, _, err := unpack(t, Limits{1 << 20, 100}, below, archive(t, "f d x")); err != nil {
		t.Error(err)
	}
}
