package proc

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// writeFile writes a file in one step, and synchronizes it and its directory.
func writeFile(name string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readFile reads what writeFile has written. found is false if there is no such file.
func readFile(name string, into any) (found bool, err error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(data, into)
}

// readRun reads the files of a run.
func readRun(dir string) (r Run, err error) {
	found, err := readFile(filepath.Join(dir, "spec.json"), &r.Spec)
	if err != nil {
		return r, err
	}
	if !found {
		return r, fs.ErrNotExist
	}
	var s started
	if _, err := readFile(filepath.Join(dir, "started.json"), &s); err != nil {
		return r, err
	}
	r.Pid, r.Started = s.Pid, s.Time
	var e Exit
	if found, err = readFile(filepath.Join(dir, "exit.json"), &e); found {
		r.Exit = &e
	}
	return r, err
}

// list returns the directories of all runs.
func list(root string) ([]ID, error) {
	var all []ID
	pods, err := os.ReadDir(filepath.Join(root, "pods"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		containers, err := os.ReadDir(filepath.Join(root, "pods", pod.Name()))
		if err != nil {
			return nil, err
		}
		for _, c := range containers {
			attempts, err := os.ReadDir(filepath.Join(root, "pods", pod.Name(), c.Name()))
			if err != nil {
				continue // a file of the pod
			}
			for _, a := range attempts {
				if n, err := strconv.Atoi(a.Name()); err == nil && n >= 0 {
					all = append(all, ID{pod.Name(), c.Name(), n})
				}
			}
		}
	}
	return all, nil
}
