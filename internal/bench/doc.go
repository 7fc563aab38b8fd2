// Package bench measures a Kubernetes API server from outside: any server that a
// rest.Config reaches, always with the same load, so that two servers can be compared.
//
//	report, err := bench.Run(ctx, bench.Options{Config: config})
//	...
//	report.WriteTable(os.Stdout)
//
// Run installs a namespace and a kind of its own, takes its measures one after the
// other, and removes what it has installed, also when its context ends before that.
// Requests are HTTP with bodies of bytes over client-go's transport; answers are read and
// thrown away: on a machine that is shared with the server, what a client spends is
// missing there.
//
// What a measure is, is said in docs/performance.md. What the server spends is read
// from Linux' /proc for the processes that the caller names.
package bench
