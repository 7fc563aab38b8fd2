// Package shards divides work among processes by key. Each key belongs to one process at a time.
//
//	err := shards.Run(ctx, cfg, shards.Options{Namespace: "default", Name: "my-operator"},
//		func(ctx context.Context, cfg *rest.Config, owns shards.Owns) error {
//			mgr, err := ctrl.NewManager(cfg, ctrl.Options{Controller: manager.ControllerOptions{
//				Owns: func(name string, request any) bool { return owns(fmt.Sprint(name, request)) },
//			}})
//			...
//			return mgr.Start(ctx)
//		})
//
// # Protocol
//
// Each process is a member with a Lease of its own, whose name no other member ever has. The
// members are those whose Leases exist. A key belongs to the member with the highest hash of member
// and key (rendezvous hashing), so that a member that comes or goes moves only its own share of the
// keys.
//
//  1. A member renews its Lease every RetryPeriod, and reads the Leases of all members.
//  2. When the set of members differs from that of its work, the member stops its work, waits until
//     it has ended, and then writes the new set to its Lease.
//  3. It starts to work with a set when the Leases of all members of that set show it. All of them
//     have ended their earlier work by then, and divide the keys in the same way.
//  4. The other members delete a Lease that has not been renewed for LeaseDuration. A member that
//     cannot renew its Lease for RenewDeadline, or whose work does not end in that time, stops
//     working and becomes a new member later.
//
// # Promises
//
// No two members work on a key at the same time, as far as their writes are concerned: the requests
// of a member have the header Kapok-Lease, with which a Kapok server commits a write only while the
// Lease exists. A process that was suspended or cut off, and that others have replaced, can
// therefore write nothing when it comes back, not even with a request that it had sent before.
//
// Other API servers ignore the header. There, a member that was suspended in the middle of a
// request may still write once after others have taken its keys: the resourceVersion in updates is
// what protects against that. Clocks of different machines are never compared.
//
// # Cost
//
// A member sends two small requests every RetryPeriod. All members pause for about two RetryPeriods
// when one comes, goes or dies.
//
// Run owns all goroutines of the package, and returns after they have ended.
package shards
