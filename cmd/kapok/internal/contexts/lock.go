package contexts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

const (
	patience = 10 * time.Second // limits the time that lock waits, which is far more than kubectl takes
	stale    = time.Minute      // is the age from which a lock is one that a killed process left behind
)

// lock locks a kubeconfig as kubectl does: by a file that exists as long as it is locked.
func lock(file string) (unlock func(), err error) {
	name := file + ".lock"
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0)
		if err == nil {
			f.Close()
			return func() { _ = os.Remove(name) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		info, err := os.Stat(name)
		if time.Since(begin) > patience || err == nil && time.Since(info.ModTime()) > stale {
			return nil, fmt.Errorf("it is locked by %s: delete that file if no kubectl runs", name)
		}
	}
}
