// Package kapoktest runs a Kubernetes API server for a test, within the test process. The server
// starts within milliseconds and stops with the test. It can run in virtual time.
//
//	func TestFoo(t *testing.T) {
//		env := kapoktest.Start(t, kapoktest.CRDs("../config/crd"))
//		env.Go(func(ctx context.Context) error { return controller.Run(ctx, env.Config()) })
//		env.Create(foo)
//		env.WaitFor(t.Context(), foo, func() bool { return foo.Status.Ready })
//	}
//
// [Env.Config] returns a rest.Config for any client: Kapok's client package, client-go, or a
// controller-runtime manager. Garbage collection and namespace deletion work as in a cluster. The
// server opens no socket and writes no file. Each parallel test has its own server.
//
// # Virtual time
//
// [Bubble] runs a test with its server in a bubble of testing/synctest: time stands still while any
// goroutine runs, and advances when all of them wait. A test that sleeps for a week takes
// only as long as the work that is done in that week.
//
//	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
//		env.Go(manager.Start)
//		env.Create(cronJob)
//		time.Sleep(7 * 24 * time.Hour)
//		...
//	}, kapoktest.CRDs("../config/crd"))
//
// A bubble must not wait for anything outside: sockets, processes, channels that were created
// outside. A webhook, for example, must be called in memory: see [Webhooks].
//
// # Permissions
//
// The test has the permissions of the admin. [Env.User] and [Env.ServiceAccount] return
// configurations for other users, whose permissions come from the roles in the manifests and from
// grants of the test. Rejected requests are shown when a wait fails, and returned by [Env.Refused].
//
// # Faults
//
// [WithFaults] injects the faults that clients encounter in clusters, [Env.Restart] replaces the
// running server by a new one, and [Explore] searches for a small set of faults that a controller
// does not tolerate.
//
// # Failures
//
// Methods of an Env end the test on an unexpected error, so that tests need no error handling. They
// must be called by the goroutine of the test or of one of its subtests.
package kapoktest
