package documents

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An elsewhere is a sentence that tests of other packages cover.
type elsewhere struct {
	id   string
	says string
	but  string   // as in a row
	test []string // DIRECTORY TEST
}

// elsewheres are the sentences about controllers, managers and webhooks, and about the projects
// under examples.
func elsewheres() []elsewhere {
	return []elsewhere{
		{id: "L12", says: "without -master and -kubeconfig: in-cluster, mounted service account token", test: []string{"manager TestGetConfig", "examples/network TestConfig"}},

		{id: "F1", says: "Reflector: LIST, then WATCH, into DeltaFIFO", test: []string{"cache TestHistories", "cache TestDeltasLikeDeltaFIFO", "cache TestServersWithoutStreams"},
			but: "a server that has streaming lists is asked for one"},
		{id: "F2", says: "Informer: store first, then OnAdd OnUpdate OnDelete", test: []string{"cache TestHandlers", "cache TestHistories"}},
		{id: "F3", says: "Indexer: thread-safe", test: []string{"cache TestIndices", "cache TestStoreLikeMap"}, but: "the race detector looks at the package in CI"},
		{id: "F4", says: "handlers enqueue `<namespace>/<name>`, not objects", test: []string{"controller/handler TestHandlers"}},
		{id: "F5", says: "each resync period updates every object with equal resourceVersions; handlers drop these",
			test: []string{"cache TestHandlers", "examples/network TestResyncIsIgnored"}, but: "a resync replays the cache; it lists nothing"},
		{id: "F6", says: "no worker before caches are synced", test: []string{"controller TestSyncTimeout", "examples/network TestTutorial"}},
		{id: "F7", says: "Get; Done always; Forget on success and on a bad key; AddRateLimited on error", test: []string{"controller TestResults", "examples/network TestNeutron"},
			but: "queues have types, so there is no bad key"},
		{id: "F8", says: "N workers (2); an item is never in two", test: []string{"controller TestConcurrency", "workqueue TestWorkers"}},
		{id: "F9", says: "listers read the cache; not found means deleted", test: []string{"cache TestReads", "examples/network TestDeletedMeanwhile"}},
		{id: "F10", says: "built-in and custom informers together (a Network for each new Deployment)", test: []string{"examples/network TestDeployments"}},

		{id: "K6", says: "-metrics-bind-address, -health-probe-bind-address :8081, -leader-elect false", test: []string{"examples/cronjob TestRun"},
			but: "metrics are off unless an address is given; logs are slog's"},
		{id: "K7", says: "Manager: shared cache and client, webhook port 9443, LeaderElectionID 80807133.tutorial.kubebuilder.io, one active",
			test: []string{"manager TestTakeover", "manager TestReadsItsWrites", "examples/cronjob TestLeader"}},
		{id: "K8", says: "healthz, readyz; runs controllers and webhooks; SIGTERM stops gracefully",
			test: []string{"manager TestServers", "manager TestOrder", "manager TestGracefulStop", "manager TestSignals", "examples/cronjob TestRun"}},
		{id: "K9", says: "cache limited to one or several namespaces", test: []string{"cache TestReads"}, but: "by Cache.DefaultNamespaces"},
		{id: "K11", says: "markers to CRD: MinLength Minimum Enum optional object:root subresource:status; comments to descriptions", test: []string{"examples/cronjob TestCRD"}},
		{id: "K12", says: "rbac markers to role: cronjobs, /status, /finalizers; jobs, jobs/status", test: []string{"examples/cronjob TestRole"}},
		{id: "K14", says: "Reconcile(ctx, name): empty result = done until a change", test: []string{"controller TestResults"}},
		{id: "K15", says: "NewControllerManagedBy.For().Owns().Complete()", test: []string{"controller TestBuilder", "manager TestOwnership"}},

		{id: "J1", says: "1 load; not found is no error", test: []string{"examples/cronjob TestJob"}},
		{id: "J2", says: "2 list jobs by index `.metadata.controller` (owner: CronJob of this API version)", test: []string{"examples/cronjob TestCronJobOf", "examples/cronjob TestForeignJobs"}},
		{id: "J3", says: "3 active, Complete, Failed by condition True; status.active holds references", test: []string{"examples/cronjob TestSortJobs", "examples/cronjob TestJob"}},
		{id: "J4", says: "lastScheduleTime = newest annotation of all jobs, nil without; skip unparsable ones; never read own status", test: []string{"examples/cronjob TestSortJobs"}},
		{id: "J5", says: "write through /status", test: []string{"examples/cronjob TestJob"}},
		{id: "J6", says: "3 delete the oldest (startTime, nil first) over each limit, background; nil limit keeps all; failures do not requeue",
			test: []string{"examples/cronjob TestSurplus", "examples/cronjob TestWeek"}},
		{id: "J7", says: "4 suspended: start nothing, no requeue", test: []string{"examples/cronjob TestWeek"}},
		{id: "J8", says: "5 count from lastScheduleTime, else creationTimestamp, not before now - startingDeadlineSeconds; run only the latest missed",
			test: []string{"examples/cronjob TestNextSchedule", "examples/cronjob TestDowntime"}},
		{id: "J9", says: "over 100 missed, or a bad schedule: log, no error, no requeue", test: []string{"examples/cronjob TestNextSchedule", "examples/cronjob TestDowntime", "examples/cronjob TestBadSchedule"}},
		{id: "J10", says: "requeue at the next run", test: []string{"examples/cronjob TestWeek"}},
		{id: "J11", says: "6 too late: skip", test: []string{"examples/cronjob TestTooLate", "examples/cronjob TestDowntime"}},
		{id: "J12", says: "Forbid skips, Replace deletes active jobs (gone is fine), Allow adds", test: []string{"examples/cronjob TestWeek"}},
		{id: "J13", says: "name `<cronjob>-<unix time of the slot>`: no run twice", test: []string{"examples/cronjob TestNewJob", "examples/cronjob TestJob"}},
		{id: "J14", says: "template's labels, annotations, spec; annotation batch.tutorial.kubebuilder.io/scheduled-at (RFC3339); controller owner, so GC cleans up",
			test: []string{"examples/cronjob TestNewJob", "examples/cronjob TestJob"}},
		{id: "J15", says: "7 requeue; an owned job's change reconciles earlier", test: []string{"examples/cronjob TestJob"}},
		{id: "J16", says: "the Clock can be faked", test: []string{"examples/cronjob TestClock"}},

		{id: "W1", says: "scaffold; the server joins the manager, each handler at its path", test: []string{"examples/cronjob TestRun"}, but: "the scaffold is the toolkit's"},
		{id: "W2", says: "/mutate-batch-tutorial-kubebuilder-io-v1-cronjob: create update, failurePolicy fail, sideEffects None, mcronjob.kb.io",
			test: []string{"examples/cronjob TestWebhookConfigurations"}},
		{id: "W3", says: "unset becomes Allow, suspend false, successful 3, failed 1; explicit 0 stays", test: []string{"examples/cronjob TestDefaults"}},
		{id: "W4", says: "/validate-batch-...: create update delete, vcronjob.kb.io", test: []string{"examples/cronjob TestWebhookConfigurations"}},
		{id: "W5", says: "name over 52 characters (63-11)", test: []string{"examples/cronjob TestValidation"}},
		{id: "W6", says: "spec.schedule parses as standard cron, else the parser's message", test: []string{"examples/cronjob TestValidation"}},
		{id: "W7", says: "both errors in one Invalid of CronJob.batch.tutorial.kubebuilder.io", test: []string{"examples/cronjob TestValidation"}},
		{id: "W8", says: "delete is called, always allowed", test: []string{"examples/cronjob TestValidation"}},

		{id: "X1", says: "At: spec.schedule (ISO date), spec.command, status.phase, first `pending`; runs the command at that time", test: []string{"examples/at TestWeekAhead", "examples/at TestManyAts"}},
		{id: "X2", says: "Foo: build, run, create", test: []string{"examples/foo TestTutorial"}},
		{id: "X3", says: "makes Deployment spec.deploymentName, owned; corrects replicas; updates status", test: []string{"examples/foo TestTutorial"}},
		{id: "X4", says: "foreign Deployment: Warning ErrResourceExists, error, retry; success: Normal SuccessSynced", test: []string{"examples/foo TestResourceExists", "examples/foo TestTutorial"}},
		{id: "X5", says: "its Deployment's change or deletion requeues Foo; a Deployment's resync (30 s) does not, a Foo's does", test: []string{"examples/foo TestTutorial", "examples/foo TestResync"}},
		{id: "X6", says: "Network before its CRD: logs 404, keeps trying", test: []string{"examples/network TestTutorial"}, but: "in the words of the cache"},
		{id: "X7", says: "recovers without restart", test: []string{"examples/network TestTutorial", "examples/network TestKindGoesAndComes"}},
		{id: "X8", says: "create", test: []string{"examples/network TestTutorial"}},
		{id: "X9", says: "update: same lines, new ResourceVersion and spec", test: []string{"examples/network TestTutorial"}},
		{id: "X10", says: "delete", test: []string{"examples/network TestTutorial"}, but: "a finalizer has the network deleted before the object is gone, so one line comes before the document's"},
		{id: "X11", says: "Neutron mock: create if absent, update if different, delete", test: []string{"examples/network TestNeutron", "examples/network/provider/neutron TestLife"}},
	}
}

// TestElsewhere checks that these tests exist.
func TestElsewhere(t *testing.T) {
	tests := map[string][]string{} // by directory
	seen := map[string]bool{}
	for _, e := range elsewheres() {
		if seen[e.id] || len(e.test) == 0 {
			t.Errorf("%s: twice, or without a test", e.id)
		}
		seen[e.id] = true
		for _, of := range e.test {
			dir, test, _ := strings.Cut(of, " ")
			if _, parsed := tests[dir]; !parsed {
				tests[dir] = testsIn(t, filepath.Join("..", "..", filepath.FromSlash(dir)))
			}
			if !slices.Contains(tests[dir], test) {
				t.Errorf("%s: %s has no %s", e.id, dir, test)
			}
		}
	}
}

// testsIn returns the names of the tests in a directory.
func testsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
