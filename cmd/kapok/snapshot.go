package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/kapok-dev/kapok/internal/snapshot"

	"github.com/spf13/cobra"
)

func newSnapshot() *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Save, restore and inspect backups of all objects",
		Long: `Save, restore and inspect backups of all objects.

A snapshot is one file with all objects at one revision, and a checksum. Objects that
are encrypted at rest are in plain text in it: protect it as well as the store. It
does not contain certificates.`,
	}
	c.AddCommand(newSnapshotSave(), newSnapshotRestore(), newSnapshotInspect())
	group(c)
	return c
}

func newSnapshotInspect() *cobra.Command {
	var as output
	c := &cobra.Command{
		Use:     "inspect FILE",
		Short:   "Check a snapshot and print its contents",
		Example: `  kapok snapshot inspect backup.snapshot`,
		Args:    oneArg("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			return failed(inspect(args[0], as, c.OutOrStdout()))
		},
	}
	as.flag(c)
	return c
}

func inspect(name string, as output, stdout io.Writer) error {
	f, r, err := openSnapshot(name, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	summary, err := r.Summary()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if as == asJSON {
		return printJSON(stdout, struct {
			File     string `json:"file"`
			Size     int64  `json:"size"`
			Checksum string `json:"checksum"`
			snapshot.Summary
		}{name, info.Size(), "ok", summary})
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "revision\t%d\n", summary.Revision)
	fmt.Fprintf(w, "time\t%s\n", summary.Time.Format(time.RFC3339))
	fmt.Fprintf(w, "kubernetes\t%s\n", summary.Kubernetes)
	fmt.Fprintf(w, "file\t%s, checksum ok\n", size(info.Size()))
	if summary.Salvaged {
		fmt.Fprintf(w, "salvaged\tyes: objects may be missing or old\n")
	}
	fmt.Fprintf(w, "\nRESOURCE\tOBJECTS\tBYTES\n")
	for _, of := range summary.Resources {
		fmt.Fprintf(w, "%s\t%d\t%d\n", of.Resource, of.Objects, of.Bytes)
	}
	fmt.Fprintf(w, "total\t%d\t%d\n", summary.Objects, summary.Bytes)
	return w.Flush()
}

// openSnapshot opens a file and checks its sum. The progress is that of two readings of the file:
// for the sum, and of the objects. It is ended if the error is not nil.
func openSnapshot(name string, shown *progress) (*os.File, *snapshot.Reader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	twice := int64(0)
	if info, err := f.Stat(); err == nil {
		twice = 2 * info.Size()
	}
	r, err := snapshot.Open(struct {
		io.Reader
		io.Seeker
	}{&counted{Reader: f, progress: shown, total: twice}, f})
	if err != nil {
		shown.end()
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, r, nil
}

// output is the value of the flag -o.
type output string

const (
	asText output = ""
	asJSON output = "json"
)

func (o *output) flag(c *cobra.Command) {
	c.Flags().VarP(o, "output", "o", "json for programs (default text for people)")
	completeValues(c, "output", "json", "text")
}

// String, Set and Type implement pflag.Value.
func (o *output) String() string { return string(*o) }
func (o *output) Type() string   { return "format" }
func (o *output) Set(s string) error {
	switch s {
	case "json":
		*o = asJSON
	case "text":
		*o = asText
	default:
		return errors.New("want json or text")
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// size shows a number of bytes to people.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d bytes", n)
	}
	value, units := float64(n)/unit, []string{"KiB", "MiB", "GiB", "TiB"}
	for value >= unit && len(units) > 1 {
		value, units = value/unit, units[1:]
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}
