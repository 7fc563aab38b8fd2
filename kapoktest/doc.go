// Package kapoktest gives a test a Kubernetes API server of its own: in the process of the test, there within milliseconds,
// gone with the test, and, if wanted, in virtual time.
//
//	func TestFoo(t *testing.T) {
//		env := kapoktest.Start(t, kapoktest.CRDs("../config/crd"))
//		env.Go(func(ctx context.Context) error { return controller.Run(ctx, env.Config()) })
//		env.Create(foo)
//		env.WaitFor(t.Context(), foo, func() bool { return foo.Status.Ready })
//	}
//
// [Env.Config] is a rest.Config, and so every client works on it: that of package client, client-go, or a manager of
// controller-runtime. Garbage is collected and namespaces are emptied as in a cluster. No socket is opened and no file is
// written; parallel tests each have a server and share nothing.
//
// # Virtual time
//
// [Bubble] runs a test in a bubble of testing/synctest, with the server in it: time stands still as long as anybody has something to do, and
// jumps when all wait. A test that sleeps for a week takes as long as the work in that week.
//
//	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
//		env.Go(manager.Start)
//		env.Create(cronJob)
//		time.Sleep(7 * 24 * time.Hour)
//		...
//	}, kapoktest.CRDs("../config/crd"))
//
// What a bubble cannot hold is what waits for the world outside: sockets, processes, channels that were made outside. A
// webhook, for one, must be reached in memory: see [Webhooks].
//
// # Rights
//
// The test is the admin. [Env.User] and [Env.ServiceAccount] are others, who may do what roles of the manifests and the test say. What
// the server refuses them is told when a wait fails, and by [Env.Refused].
//
// # Faults
//
// [WithFaults] has clients meet what goes wrong in clusters, [Env.Restart] puts another server in the place of the one that runs, and
// [Explore] looks for the few faults that a controller does not stand.
//
// # Failures
//
// Methods of an Env end the test when something fails that should not, so that tests need not look. They must be called by
// the goroutine of the test.
package kapoktest
