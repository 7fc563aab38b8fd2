package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func newConfigMigrate() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate FILE",
		Short: "Translate the flags of a kube-apiserver into a configuration file",
		Long: fmt.Sprintf(`Translate the flags of a kube-apiserver into a configuration file of kapok up, and print it.

FILE is the manifest of a pod that runs kube-apiserver, like that of kubeadm; a file with its command
line, like a unit of systemd; or a configuration file of kapok up, which is printed in the current
version. - is the standard input.

Where kube-apiserver has another default than kapok up, the default of kube-apiserver is printed. So
is that no controllers run, since they run in kube-controller-manager.

Flags without an equivalent are listed on the standard error, as comments. The exit code is 0 if there
are none, %d if there are some, and 1 if FILE or a value is invalid; then, nothing is printed.`, exitIncomplete),
		Example: `  kapok config migrate /etc/kubernetes/manifests/kube-apiserver.yaml > server.yaml
  kapok config migrate /etc/systemd/system/kube-apiserver.service`,
		Args: oneArg("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			return failed(migrate(args[0], c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()))
		},
	}
}

// errIncomplete is the error of a command whose result lacks a part of its input.
var errIncomplete = errors.New("some settings have no equivalent: see the comments above")

func migrate(file string, stdin io.Reader, stdout, stderr io.Writer) error {
	read := func() ([]byte, error) { return os.ReadFile(file) }
	if file == "-" {
		file, read = "standard input", func() ([]byte, error) { return io.ReadAll(stdin) }
	}
	data, err := read()
	if err != nil {
		return err
	}
	result, notes, err := migrated(data)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	missing := false
	for _, note := range notes {
		missing = missing || note.missing
		fmt.Fprintf(stderr, "# %s\n", note.text)
	}
	if _, err := stdout.Write(result); err != nil {
		return err
	}
	if missing {
		return errIncomplete
	}
	return nil
}

// A note is a comment on a translation.
type note struct {
	text    string
	missing bool // a setting has no equivalent
}

// migrated returns the configuration that a file stands for.
func migrated(data []byte) (result []byte, notes []note, err error) {
	u := newUpState()
	c := u.command()
	switch {
	case documentOf(data) == configurationKind:
		fields, err := readConfiguration(data)
		if err != nil {
			return nil, nil, err
		}
		if err := setByFields(c.Flags(), fields); err != nil {
			return nil, nil, err
		}
	default:
		args, err := commandLineOf(data)
		if err != nil {
			return nil, nil, err
		}
		t := translation{up: u, flags: c.Flags()}
		if err := t.translate(args); err != nil {
			return nil, nil, err
		}
		notes = t.notes
	}
	if err := u.excluded(c); err != nil {
		return nil, nil, err
	}
	if err := checkWords(&u.options); err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	err = writeConfiguration(&out, c.Flags(), false)
	return out.Bytes(), notes, err
}
