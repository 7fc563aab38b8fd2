// Package front finds the program kapok, which starts the toolkit, and does some of its work.
package front

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// Self is the environment variable with the path of the program kapok that has started this one.
const Self = "KAPOK_SELF"

// Program returns the path of the program kapok: that which has started this one, the one beside
// it, or one in PATH.
func Program() (string, error) {
	if program := os.Getenv(Self); program != "" {
		return program, nil
	}
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), "kapok")); err == nil {
			return beside, nil
		}
	}
	program, err := exec.LookPath("kapok")
	if err != nil {
		return "", errors.New("the program kapok is not in PATH")
	}
	return program, nil
}
