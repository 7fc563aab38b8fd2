package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// source is the commit that is released.
type source struct {
	dir      string // of the clone
	commit   string // 40 or 64 hexadecimal digits
	time     time.Time
	modified bool // the work tree has changes
}

// findSource asks git for the commit of a clone. A work tree with changes is an error, unless it is
// permitted.
func findSource(ctx context.Context, dir string, dirty bool) (source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return source{}, err
	}
	s := source{dir: dir}
	head, err := git(ctx, dir, "log", "-1", "--format=%H %ct")
	if err != nil {
		return source{}, fmt.Errorf("find the commit of %s: %w", dir, err)
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(head), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("find the commit of %s: time of %s: %w", dir, commit, err)
	}
	s.commit, s.time = commit, time.Unix(unix, 0).UTC()
	// Files that git does not know count: the compiler would use them.
	changes, err := git(ctx, dir, "status", "--porcelain")
	if err != nil {
		return source{}, fmt.Errorf("find changes in %s: %w", dir, err)
	}
	s.modified = changes != ""
	if s.modified && !dirty {
		return source{}, fmt.Errorf("%s differs from its commit: commit, or use --snapshot:\n%s", dir, strings.TrimRight(changes, "\n"))
	}
	return s, nil
}

// fix sets the time from the value of SOURCE_DATE_EPOCH, if that is not empty. Times of archives of
// zip begin in 1980.
func (s *source) fix(epoch string) error {
	if epoch == "" {
		return nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds", epoch)
	}
	if at := time.Unix(seconds, 0).UTC(); at.Year() < 1980 || at.Year() > 2100 {
		return fmt.Errorf("SOURCE_DATE_EPOCH %q is not between 1980 and 2100", epoch)
	}
	s.time = time.Unix(seconds, 0).UTC()
	return nil
}

// git runs a command of git in a directory, and returns its output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	out, err := c.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(failed.Stderr))
	}
	return string(out), err
}
