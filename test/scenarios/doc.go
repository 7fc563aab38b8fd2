// Package scenarios has what Kubernetes' controllers do, as scripts with their outcomes.
//
// The outcomes were recorded with the real kube-controller-manager by test/oracle, and are never
// written by hand. Run plays the scripts with any controllers against any server, and compares.
//
// No node runs pods in a scenario: the script sets their status. There are the nodes n1 and n2.
// Nodes and other objects without a namespace are shared by the scenarios that are recorded at
// once: the names of those of a scenario begin with {ns}-, also after a colon, or have .{ns}. in
// them.
//
// # The language
//
// Scripts are cockroachdb/datadriven files in testdata. A step is a command with its arguments, its
// input below, then ---- and the output.
//
//	flags                          begins a script whose controllers have the flags of kube-controller-manager in the
//	                               input, one a line; it shares no nodes with scripts that have other flags
//	scenario NAME                  begins a scenario in a namespace of its own, {ns} in inputs and arguments
//	define NAME                    gives the input a name: {NAME} stands for it in later inputs of the script
//	nodes NAME...                  creates the nodes {ns}-NAME without taints, labeled with scenario={ns} and
//	                               name=NAME; they go with the scenario. With zone=Z they are in the zone {ns}-Z,
//	                               with n=N there are N nodes {ns}-NAME1, {ns}-NAME2 ... of each name
//	beat NAME... [ready=False]     sends what a kubelet sends for the nodes {ns}-NAME: the condition Ready, and the
//	                               Lease; with only=status or only=lease, one of them
//	create [as=USER] [group=NAME]  creates the objects in the input, which is YAML; as another user
//	patch KIND/NAME [sub=]         sends the merge patch in the input, which is YAML; sub is a subresource
//	delete KIND/NAME [orphan]      deletes an object; its dependents go, too, or are orphaned; with
//	                               foreground they go first
//	                               in both, NAME may be all: every object of the kind
//	settle                         waits until the controllers have done all that they can do at once
//	wait 5s [beat=(NAME, ...)]     lets time pass; meanwhile the Leases of the nodes {ns}-NAME are renewed
//	wait :05                       waits until this second of a minute; of the first one, that is minute 0
//	pods ACT [ARGS]                changes the status of pods
//	metrics                        sets what the metrics APIs say about the namespace, instead of all before
//	play                           settles, and repeats: pods gone, pods ready, settle; until no pod is left to change
//	show KIND... [fields=(a, b)]   prints objects of the namespace: by default their labels, annotations,
//	                               finalizers, owners, deletion and status; KIND/NAME is one of them
//	names KIND...                  prints the names of objects only
//	events [KIND...] [once]        prints the events of the namespace, or those about objects of kinds, also of kinds without a namespace; once
//	                               is for those whose number depends on how quickly a controller notices its own writes
//	history KIND... [of=FIELD]     prints creations and deletions since the last time, and changes of a field
//
// A VolumeAttachment belongs to the scenario of its node; its name, a hash, is printed as
// csi-<hash>, and NODE:VOLUME stands for it in arguments.
//
// ACT is ready, unready, running, succeed, fail, delete, evict, gone (the end of a deletion), bind,
// address (an IP with the number at the end of the name, or 1), or patch (sends the merge patch in
// the input, of a subresource with sub=). It applies to the pods that the arguments select, or to
// all that it changes:
//
//	app=web                        a label
//	name=web-0                     the name
//	on=N                           the node, or without one that of the pod's affinity
//	index=0                        the completion index of a Job's pod
//	n=2                            only so many, the oldest first
//	node=N                         of bind; default that of the pod's affinity, or n1
//	family=F                       of address: v6 or both; default IPv4
//	code=1 reason=R condition=T    of fail: the exit code, and the type and reason of another condition
//	container=C                    of fail: the only container with that exit code; the others have 0
//
// For CronJobs, inputs and arguments have {now} and {now-90s} for times, and {minute}, {minute+1}
// or {minute-1} for the number of a minute in the name of a Job, counted from minute 0.
// {uid:KIND/NAME} is the uid of an object.
//
// # Metrics
//
// The metrics APIs (metrics.k8s.io, custom.metrics.k8s.io, external.metrics.k8s.io) exist for all
// scenarios once one of them has had the step metrics. Its input is YAML:
//
//	usage:      metrics.k8s.io. An entry is about the pods that have the labels pods and no entry before,
//	            count of them; or about a pod called name, which need not exist
//	            {pods: {app: web}, count: 2, cpu: 100m, memory: 1Mi, age: 60s, window: 30s}
//	            {name: web-0, containers: {c: {cpu: 100m}, d: {memory: 1Mi}}}
//	each:       custom metrics of pods, with the labels of the metric
//	            {metric: requests, pods: {app: web}, n: 2, value: 5, labels: {verb: get}}
//	objects:    custom metrics of other objects: RESOURCE/NAME, or namespace
//	            {metric: requests, of: services/web, value: 5, labels: {verb: get}}
//	external:   external metrics
//	            {metric: queue, value: 5, labels: {queue: jobs}}
//	fails:      the status with which a group answers: {metrics.k8s.io: 500}
//
// # Normalisation
//
// Outputs have no uids, resourceVersions, generations of names or times: a time is <time>, and what
// the server appended to a generated name is *. Objects that are equal then are printed once, with
// their number. Endpoints, and their subsets and addresses, are sorted. The slots of CronJobs, in
// times and in names of Jobs, are <minute+1>, counted from minute 0; without it, or far from it,
// <slot>.
package scenarios
