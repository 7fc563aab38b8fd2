package proc

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/kapok-dev/kapok/node/internal/beneath"
)

// Containers run as the user that owns these files, and can replace them by others, links, pipes or
// devices. So all are opened by package beneath, and none is believed: a run is named by its
// directory, and files that make no sense are those of a run that is lost.

// longestFile is the maximum length of a file that is read, in bytes.
const longestFile = 16 << 20

// writeFile writes a file in one step, and synchronizes it and its directory.
func writeFile(in *os.Root, name string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return beneath.Replace(in, name, data, true)
}

// readFile reads what writeFile has written. found is false if there is no such file.
func readFile(in *os.Root, name string, into any) (found bool, err error) {
	data, err := beneath.Read(in, name, longestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(data, into)
}

// readRun reads the files of a run. With an error other than fs.ErrNotExist, which is that of a run
// whose start had not begun, the run is known by its name only.
func readRun(root *os.Root, id ID) (r Run, err error) {
	dir := id.dir()
	found, err := readFile(root, filepath.Join(dir, "spec.json"), &r.Spec)
	if err == nil && !found {
		err = fs.ErrNotExist
	}
	if r.ID = id; err != nil {
		return Run{Spec: Spec{ID: id}}, err
	}
	var s started
	if _, err := readFile(root, filepath.Join(dir, "started.json"), &s); err != nil {
		return Run{Spec: Spec{ID: id}}, err
	}
	r.Pid, r.Started = s.Pid, s.Time
	var e Exit
	if found, err = readFile(root, filepath.Join(dir, "exit.json"), &e); found && err == nil {
		r.Exit = &e
	}
	return r, err
}

// list returns the directories of all runs.
func list(root *os.Root) ([]ID, error) {
	pods, err := directories(root, "pods")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []ID
	for _, pod := range pods {
		containers, _ := directories(root, filepath.Join("pods", pod)) // one that cannot be read has no runs
		for _, container := range containers {
			attempts, _ := directories(root, filepath.Join("pods", pod, container))
			for _, text := range attempts {
				n, err := strconv.Atoi(text)
				if id := (ID{pod, container, n}); err == nil && strconv.Itoa(n) == text && id.validate() == nil {
					all = append(all, id)
				}
			}
		}
	}
	return all, nil
}

// directories returns the names of the directories in a directory.
func directories(root *os.Root, name string) (names []string, err error) {
	dir, err := beneath.Dir(root, name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	d, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}
