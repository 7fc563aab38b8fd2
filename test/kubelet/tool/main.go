// Command tool is the only program in the images of the tests. Without arguments, it sleeps; tool
// serve answers HTTP requests with the name of its pod.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		pause()
		return nil
	}
	switch command, args := args[0], args[1:]; command {
	case "serve":
		http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			fmt.Println(r.Method, r.URL)
			fmt.Fprintln(w, os.Getenv("HOSTNAME"))
		})
		return http.ListenAndServe(":80", nil)
	case "echo":
		for _, arg := range args {
			fmt.Println(arg)
		}
		return nil
	case "lookup":
		addresses, err := net.LookupHost(args[0])
		for _, a := range addresses {
			fmt.Println(a)
		}
		return err
	case "ls":
		entries, err := os.ReadDir(args[0])
		for _, e := range entries {
			fmt.Println(e.Name())
		}
		return err
	default:
		return fmt.Errorf("unknown command %q", command)
	}
}

// pause waits for a signal, and collects what the pod leaves behind.
func pause() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
