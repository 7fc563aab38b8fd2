package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// wrongFlag is the error of a flag that is not known, or whose value is missing or wrong.
func wrongFlag(c *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
	)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("unknown flag: -%.1s", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if ours := ofKubernetes[name]; slices.Contains(known, ours) {
			return fmt.Errorf("unknown flag --%s: here its name is --%s", name, ours)
		}
		return fmt.Errorf("unknown flag: --%s%s", name, nearest(name, known, "--"))
	case errors.As(err, &missing):
		f := missing.GetFlag()
		return fmt.Errorf("%s needs a value: %s", spelled(f), f.Usage)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		return fmt.Errorf("%s: %q %w", spelled(f), invalid.GetValue(), wantedOf(f, invalid.Unwrap()))
	case errors.As(err, &syntax):
		return fmt.Errorf("%q is not a flag: want --NAME or --NAME=VALUE", syntax.GetSpecifiedFlag())
	}
	return err
}

// ofKubernetes are flags of kube-apiserver that have another name here.
var ofKubernetes = map[string]string{
	"bind-address": "listen",
	"etcd-servers": "store",
	"secure-port":  "listen",
}

// spelled returns the spelling of a flag for messages, such as "-f, --filename".
func spelled(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// wantedOf returns the rule that the value of a flag violates, by the type of the flag. For Kapok's
// own flag types, cause describes the rule.
func wantedOf(f *pflag.Flag, cause error) error {
	if errors.Is(cause, errNegative) || errors.Is(cause, errNotPositive) {
		return cause
	}
	switch f.Value.Type() {
	case "duration":
		return errors.New("is not a duration: want a number with a unit, such as 90s, 5m or 720h")
	case "bool":
		return errors.New("is invalid: want true or false")
	case "int", "int64":
		return errors.New("is not an integer, or too large")
	case "uint", "uint64":
		return errors.New("is not a non-negative integer, or too large")
	}
	return fmt.Errorf("is invalid: %w", cause)
}

// logLevel is the value of a flag for a level of package slog.
type logLevel slog.Level

func (*logLevel) Type() string { return "level" }

func (l *logLevel) String() string { return strings.ToLower(slog.Level(*l).String()) }

func (l *logLevel) Set(text string) error {
	if (*slog.Level)(l).UnmarshalText([]byte(text)) != nil {
		return errors.New("want debug, info, warn or error")
	}
	return nil
}

// logFormat is the value of a flag for the form of log lines: text or json.
type logFormat string

func (*logFormat) Type() string { return "format" }

func (l *logFormat) String() string { return string(*l) }

func (l *logFormat) Set(text string) error {
	if text != "text" && text != "json" {
		return errors.New("want text or json")
	}
	*l = logFormat(text)
	return nil
}

// logger returns a logger for lines of this form. Kubernetes' packages log through it too.
func (l logFormat) logger(w io.Writer, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	log := slog.New(slog.NewTextHandler(w, o))
	if l == "json" {
		log = slog.New(slog.NewJSONHandler(w, o))
	}
	klog.SetSlogLogger(log)
	return log
}

// exclude has a command refuse two flags that are given together.
func exclude(c *cobra.Command, one, other string) {
	c.MarkFlagsMutuallyExclusive(one, other) // so that completion does not offer both
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if c.Flags().Changed(one) && c.Flags().Changed(other) {
			return fmt.Errorf("--%s and --%s exclude each other: set only one of them", one, other)
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
}

// noArgs rejects all arguments.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q: %s takes only flags", args[0], c.CommandPath())
	}
	return nil
}

// oneArg takes one argument, which is called what in the usage of the command.
func oneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("the argument %s is missing: run %s", what, c.UseLine())
		case len(args) > 1:
			return fmt.Errorf("too many arguments: want one %s, got %q", what, args)
		case args[0] == "":
			return fmt.Errorf("%s must not be empty", what)
		}
		return nil
	}
}

// maybeOneArg is oneArg for an argument that has a default.
func maybeOneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return oneArg(what)(c, args)
	}
}

// group makes a command with subcommands print its help, and reject unknown subcommands.
func group(c *cobra.Command) {
	c.DisableFlagsInUseLine = true
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

// unknownCommand is the error of a subcommand that there is not.
func unknownCommand(c *cobra.Command, name string) error {
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s", name, c.CommandPath(), nearest(name, known, c.CommandPath()+" "))
}

// helpOf has the command help fail where cobra's own prints the help of another command.
func helpOf(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() != "help" {
			continue
		}
		show := c.Run
		c.Run = nil
		c.RunE = func(c *cobra.Command, args []string) error {
			if found, rest, err := root.Find(args); err != nil || len(rest) > 0 && found.HasAvailableSubCommands() {
				return unknownCommand(found, rest[0])
			}
			show(c, args)
			return nil
		}
	}
}

// nearest suggests which of some names is meant by one that is not among them.
func nearest(name string, known []string, prefix string) string {
	best, least := "", 3 // more than two letters are another word
	for _, k := range known {
		if len(name) > 2 && strings.HasPrefix(k, strings.ToLower(name)) {
			best, least = k, 2 // unless there is one that differs by a letter
			break
		}
	}
	for _, k := range known {
		if d := distance(strings.ToLower(name), k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %s%s?", prefix, best)
}

// distance returns the number of letters to insert, delete or replace to turn one word into the
// other (Levenshtein distance).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// checkDirectory rejects a path that exists and is not a directory, or that is below such a path.
// The directory need not exist.
func checkDirectory(what, dir string) error {
	for at := dir; ; {
		info, err := os.Stat(at)
		switch {
		case err == nil && info.IsDir():
			return nil
		case err == nil && at == dir:
			return fmt.Errorf("%s %s is a file: want a directory", what, dir)
		case err == nil:
			return fmt.Errorf("%s %s: %s is a file: want a directory", what, dir, at)
		}
		parent := filepath.Dir(at)
		if parent == at {
			return nil
		}
		at = parent
	}
}
