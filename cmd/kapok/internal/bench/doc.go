// Package bench measures a Kubernetes API server from outside: any server that a rest.Config
// reaches, always with the same load, so that two servers can be compared.
//
//	report, err := bench.Run(ctx, bench.Options{Config: config})
//	...
//	report.WriteTable(os.Stdout)
//
// Run installs a namespace and a kind of its own, takes its measures one after the other, and
// removes what it has installed, even if its context ends before that. Requests are sent as
// prepared bytes over client-go's transport, and responses are read and discarded: on a machine
// shared with the server, the client's work takes processor time from it.
//
// docs/performance.md defines the measures. The server's processor time and memory are read from
// Linux' /proc for the processes that the caller names.
//
// Run owns all goroutines that it starts, and waits for them. The package has no global state;
// concurrent runs disturb each other's figures only.
package bench
