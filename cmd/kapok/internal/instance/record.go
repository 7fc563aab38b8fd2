package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kapok-dev/kapok/internal/pki"
)

const recordFile = "instance.json"

// A Record is what an instance remembers. Only the holder of the instance's lock writes it.
type Record struct {
	Project     string    `json:"project,omitempty"`     // the folder with kapok.yaml
	Port        int       `json:"port,omitempty"`        // taken again by the next start
	Kubeconfigs []string  `json:"kubeconfigs,omitempty"` // files into which the context was merged
	Process     *Process  `json:"process,omitempty"`     // of the last start
	Created     time.Time `json:"created"`
}

// A Process is a start of an instance.
type Process struct {
	ID         int       `json:"id"`
	Started    time.Time `json:"started"`
	Detached   bool      `json:"detached,omitempty"`
	Address    string    `json:"address,omitempty"`    // empty until it is ready
	Kubeconfig string    `json:"kubeconfig,omitempty"` // of the admin
	Store      string    `json:"store,omitempty"`      // memory or an etcd; empty for the data directory
}

// Record returns what the instance remembers; nothing if it never ran.
func (i Instance) Record() (Record, error) {
	var r Record
	file := filepath.Join(i.Dir, recordFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("%s is damaged (%w): delete the file; the instance then takes another port", file, err)
	}
	return r, nil
}

// Write replaces the record.
func (i Instance) Write(r Record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return pki.WriteFile(filepath.Join(i.Dir, recordFile), append(data, '\n'))
}

// Kubeconfig is the file with the kubeconfig of the admin, which exists while the instance runs.
func (i Instance) Kubeconfig() string {
	if r, err := i.Record(); err == nil && r.Process != nil && r.Process.Kubeconfig != "" {
		return r.Process.Kubeconfig
	}
	return filepath.Join(i.Dir, "kubeconfig")
}
