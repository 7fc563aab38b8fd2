package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/contexts"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/instance"

	"github.com/spf13/cobra"
)

func newStop() *cobra.Command {
	force, timeout := false, time.Minute
	c := &cobra.Command{
		Use:   "stop [NAME]",
		Short: "Stop an instance, whose data remains",
		Long: `Stop an instance, and wait until it has ended. Its data, port and context remain.

NAME is by default $KAPOK_INSTANCE, the instance of the project, or "default".`,
		Example:           `  kapok stop demo`,
		Args:              maybeOneArg("NAME"),
		ValidArgsFunction: completeInstance,
		RunE: func(c *cobra.Command, args []string) error {
			if timeout <= 0 {
				return fmt.Errorf("--timeout must be positive, like 1m, not %v", timeout)
			}
			i, err := existing(args)
			if err != nil {
				return failed(err)
			}
			ctx, restore := interruptible(c.Context())
			defer restore()
			return failed(stopInstance(ctx, i, force, timeout, c.OutOrStdout()))
		},
	}
	c.Flags().BoolVar(&force, "force", false, "kill the process: requests end without a response. What was written remains")
	c.Flags().DurationVar(&timeout, "timeout", timeout, "time to wait until the instance has ended")
	return c
}

func stopInstance(ctx context.Context, i instance.Instance, kill bool, timeout time.Duration, stdout io.Writer) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := i.Stop(limited, kill)
	switch {
	case errors.Is(err, instance.ErrNotRunning) && isRunning(i):
		return otherServer(i)
	case errors.Is(err, instance.ErrNotRunning):
		return fmt.Errorf("instance %s is not running", i.Name)
	case ctx.Err() != nil:
		return errors.New("interrupted: the instance may still stop")
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("instance %s still runs after %v: --force kills its process", i.Name, timeout)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(stdout, "Instance %s has stopped.\n", i.Name)
	return err
}

// otherServer is the error for a server that does not hold the lock of its instance.
func otherServer(i instance.Instance) error {
	return fmt.Errorf("a server that was not started as instance %s runs on %s: stop it where it was started", i.Name, i.Dir)
}

func newDelete() *cobra.Command {
	force := false
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete an instance and all its data; delete api and delete webhook remove those of a project",
		Long: `Delete an instance: its objects, certificates and log, and its context in your kubeconfig, where the
context is selected again that was before. kapok snapshot save saves the objects.

kapok delete api and kapok delete webhook are of another kind: they remove files of the project of an operator.`,
		Example:           `  kapok delete demo`,
		Args:              oneArg("NAME"),
		ValidArgsFunction: completeInstance,
		RunE: func(c *cobra.Command, args []string) error {
			i, err := existing(args)
			if err != nil {
				return failed(err)
			}
			ctx, restore := interruptible(c.Context())
			defer restore()
			return failed(deleteInstance(ctx, i, force, c.OutOrStdout(), c.ErrOrStderr()))
		},
	}
	c.Flags().BoolVar(&force, "force", false, "stop the instance first if it runs")
	c.AddCommand(newOfToolkit("Remove a kind from a project", "delete", "api"), newOfToolkit("Remove the webhooks of a kind from a project", "delete", "webhook"))
	return c
}

func deleteInstance(ctx context.Context, i instance.Instance, force bool, stdout, stderr io.Writer) error {
	_, locked := i.Locked()
	switch {
	case locked && !force:
		return fmt.Errorf("instance %s is running: stop it with kapok stop %s, or set --force", i.Name, i.Name)
	case locked:
		if err := stopInstance(ctx, i, false, time.Minute, stdout); err != nil {
			return err
		}
	case isRunning(i):
		return otherServer(i)
	}
	r, err := i.Record()
	if err != nil {
		fmt.Fprintf(stderr, "Warning: %v. The context %s may remain in your kubeconfig.\n", err, i.Context())
	}
	for _, file := range r.Kubeconfigs {
		if err := contexts.Remove(file, i.Context(), i.Dir); err != nil {
			fmt.Fprintf(stderr, "Warning: context %s remains in %s: %v\n", i.Context(), file, err)
		}
	}
	home, err := instances()
	if err != nil {
		return err
	}
	if err := home.Delete(i); err != nil {
		return fmt.Errorf("delete instance %s: %w", i.Name, err)
	}
	_, err = fmt.Fprintf(stdout, "Instance %s is deleted.\n", i.Name)
	return err
}

func newLogs() *cobra.Command {
	follow, tail := false, -1
	c := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Print the log of an instance",
		Long: `Print the log of an instance, of this start and earlier ones.

NAME is by default $KAPOK_INSTANCE, the instance of the project, or "default".`,
		Example:           `  kapok logs demo --follow --tail 20`,
		Args:              maybeOneArg("NAME"),
		ValidArgsFunction: completeInstance,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("tail") && tail < 0 {
				return fmt.Errorf("--tail is %d: must not be negative", tail)
			}
			i, err := existing(args)
			if err != nil {
				return failed(err)
			}
			ctx, restore := interruptible(c.Context())
			defer restore()
			return failed(printLog(ctx, i, follow, tail, c.OutOrStdout()))
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print new lines until the instance stops")
	c.Flags().IntVar(&tail, "tail", -1, "number of last lines to print (default all)")
	c.Flags().Lookup("tail").DefValue = ""
	return c
}

func printLog(ctx context.Context, i instance.Instance, follow bool, tail int, stdout io.Writer) error {
	f, err := os.Open(i.Log())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("instance %s has no log: it was never started with this version", i.Name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if tail >= 0 {
		at, err := lastLines(f, tail)
		if err != nil {
			return err
		}
		if _, err := f.Seek(at, io.SeekStart); err != nil {
			return err
		}
	}
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		_, locked := i.Locked() // before the copy: what is written until the end is printed
		if _, err := io.Copy(stdout, f); err != nil {
			return err
		}
		if !follow || !locked {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// lastLines returns where the last n lines of a file begin.
func lastLines(f io.Reader, n int) (int64, error) {
	var begins []int64 // of the last n lines
	var line, at int64 // where the current line begins, and what was read
	for r := bufio.NewReader(f); ; {
		part, err := r.ReadSlice('\n')
		at += int64(len(part))
		if err != nil && err != io.EOF && !errors.Is(err, bufio.ErrBufferFull) {
			return 0, err
		}
		if err == nil || err == io.EOF && at > line {
			if begins = append(begins, line); len(begins) > n {
				begins = begins[1:]
			}
			line = at
		}
		if err == io.EOF {
			return append(begins, at)[0], nil
		}
	}
}
