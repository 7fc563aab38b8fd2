package port

import (
	_ "embed"
	"maps"
	"strings"
	"sync"
)

// The module paths of controller-runtime and of the framework.
const (
	From = "sigs.k8s.io/controller-runtime"
	To   = "github.com/kapok-dev/kapok"
)

// packages maps packages of controller-runtime to those of the framework, without the module paths.
var packages = map[string]string{
	"":                              "ctrl",
	"pkg/builder":                   "controller",
	"pkg/cache":                     "cache",
	"pkg/certwatcher":               "manager/certwatcher",
	"pkg/client":                    "client",
	"pkg/client/apiutil":            "client",
	"pkg/client/config":             "manager",
	"pkg/client/fake":               "kapoktest/fake",
	"pkg/client/interceptor":        "client/interceptor",
	"pkg/cluster":                   "manager/cluster",
	"pkg/finalizer":                 "controller/finalizer",
	"pkg/controller":                "controller",
	"pkg/controller/controllerutil": "client",
	"pkg/controller/priorityqueue":  "workqueue",
	"pkg/config":                    "manager",
	"pkg/conversion":                "webhook",
	"pkg/event":                     "controller/handler",
	"pkg/handler":                   "controller/handler",
	"pkg/healthz":                   "manager/healthz",
	"pkg/log":                       "manager/log",
	"pkg/log/zap":                   "manager/zap",
	"pkg/manager":                   "manager",
	"pkg/manager/signals":           "manager",
	"pkg/metrics/filters":           "manager/metricsserver/filters",
	"pkg/metrics/server":            "manager/metricsserver",
	"pkg/predicate":                 "controller/predicate",
	"pkg/reconcile":                 "controller",
	"pkg/recorder":                  "manager",
	"pkg/scheme":                    "client/scheme",
	"pkg/source":                    "controller",
	"pkg/webhook":                   "webhook",
	"pkg/webhook/admission":         "webhook",
	"pkg/webhook/conversion":        "webhook",
}

// renamed maps names that differ, by package and name.
var renamed = map[string]string{
	"pkg/config.Controller":                    "ControllerOptions",
	"pkg/source.Func":                          "SourceFunc",
	"pkg/source.TypedFunc":                     "TypedSourceFunc",
	"pkg/source.ChannelOpt":                    "TypedChannelOption",
	"pkg/source.WithPredicates":                "ChannelPredicates",
	"pkg/builder.ControllerManagedBy":          "NewControllerManagedBy",
	"pkg/client/apiutil.NewDynamicRESTMapper":  "NewRESTMapper",
	"pkg/webhook/conversion.NewWebhookHandler": "NewConversionHandler",
}

// advice maps packages and names that the framework does not have to their replacement. The key of
// a package has no name.
var advice = map[string]string{
	"pkg/envtest": "the import stays: envtest runs on Kapok's binary (`kapok envtest`), " +
		"and package kapoktest starts a server in the process of the test",
	"pkg/envtest/komega":                     "the import stays; Eventually with Client.Get does the same",
	"pkg/metrics":                            "the import stays, but metrics that are registered with it are not served: register them with Manager.GetMetricsRegistry()",
	"pkg/client/fake.AddIndex":               "call ClientBuilder.WithIndex before Build",
	"pkg/builder.WebhookManagedBy":           "call ctrl.NewWebhookManagedBy",
	"pkg/client/apiutil.AddToProtobufScheme": "remove it: the client detects the kinds that support protobuf",
	"pkg/client/apiutil.RESTClientForGVK":    "call client.RESTClientFor",
	"pkg/log/zap.NewRaw":                     "create the logger with zap.New, or with go.uber.org/zap itself and zapr",
	"pkg/log/zap.Encoder":                    zapTypes,
	"pkg/log/zap.RawZapOpts":                 zapTypes,
	"pkg/log/zap.KubeAwareEncoder":           "remove it: zap.New logs objects by kind, namespace and name",
	"pkg/log/zap.NewEncoderFunc":             zapTypes,
	"pkg/log.KubeAPIWarningLogger":           "set WarningHandler of the rest.Config",
	"pkg/cache.ErrResourceNotCached":         "remove it: a read of a kind starts its informer",
	"pkg/metrics/server.DefaultBindAddress":  "remove it: metrics are served only at Options.Metrics.BindAddress",
	"pkg/webhook/conversion.NewRegistry":     "register the converter with NewWebhookManagedBy(...).WithConverter",
	"pkg/controller/priorityqueue.Opts":      "use workqueue.Options",
	"pkg/controller/priorityqueue.Opt":       "use workqueue.Options",
	"pkg/builder.WebhookBuilder":             "use webhook.WebhookBuilder",
	"pkg/manager.Server":                     "implement manager.Runnable",
}

// changed has names that the framework has with another signature, and how to adapt their uses.
var changed = map[string]string{
	"pkg/controller/priorityqueue.New": "it takes workqueue.Options",
}

// changedFields has fields that the framework does not have or that differ, by package, type and
// name.
var changedFields = map[string]string{
	"pkg/cache.ByObject.EnableWatchBookmarks":                   bookmarks,
	"pkg/cache.Config.EnableWatchBookmarks":                     bookmarks,
	"pkg/cache.Options.DefaultEnableWatchBookmarks":             bookmarks,
	"pkg/cache.Config.SyncPeriod":                               "set it in cache.ByObject or cache.Options",
	"pkg/cache.Config.UnsafeDisableDeepCopy":                    "set it in cache.ByObject or cache.Options",
	"pkg/cache.Options.DefaultWatchErrorHandler":                "remove it: the cache logs errors of watches, and retries",
	"pkg/cache.Options.NewInformer":                             "remove it: the cache has its own informers",
	"pkg/cache.Options.ReaderFailOnMissingInformer":             "remove it: a read of a kind starts its informer",
	"pkg/client.ApplyOptions.Raw":                               raw,
	"pkg/client.CreateOptions.Raw":                              raw,
	"pkg/client.DeleteOptions.Raw":                              raw,
	"pkg/client.PatchOptions.Raw":                               raw,
	"pkg/client.UpdateOptions.Raw":                              raw,
	"pkg/client.ApplyOptions.DisableReadYourWritesConsistency":  stale,
	"pkg/client.CreateOptions.DisableReadYourWritesConsistency": stale,
	"pkg/client.DeleteOptions.DisableReadYourWritesConsistency": stale,
	"pkg/client.GetOptions.DisableReadYourWritesConsistency":    stale,
	"pkg/client.ListOptions.DisableReadYourWritesConsistency":   stale,
	"pkg/client.PatchOptions.DisableReadYourWritesConsistency":  stale,
	"pkg/client.UpdateOptions.DisableReadYourWritesConsistency": stale,
	"pkg/client.CacheOptions.EnableReadYourWritesConsistency":   "remove it: it is the default, unless Stale is set",
	"pkg/client.Options.Log":                                    "remove it: the client returns errors, and the rest.Config handles warnings of the server",
	"pkg/client.SubResourceApplyOptions.SubResourceBody":        "call Apply with the body, which must have the object's name",
	"pkg/cluster.Options.HTTPClient":                            "remove it: the client is created from the rest.Config",
	"pkg/controller/priorityqueue.AddOpts.Priority":             "use an int instead of a pointer: 0 is the default",
	"pkg/controller.Options.NewQueue":                           newQueue,
	"pkg/controller.TypedOptions.NewQueue":                      newQueue,
	"pkg/log/zap.Options.Encoder":                               zapTypes,
	"pkg/log/zap.Options.NewEncoder":                            zapTypes,
	"pkg/log/zap.Options.ZapOpts":                               zapTypes,
	"pkg/webhook.DefaultServer.Options":                         "create the server with webhook.NewServer",
}

const (
	bookmarks = "remove it: watches always have bookmarks"
	raw       = "use the other fields and options"
	stale     = "use the field Stale, a bool"
)

// zapNames maps names of go.uber.org/zap in options of loggers to those of the framework.
var zapNames = map[string]map[string]string{
	"go.uber.org/zap": levels,
	"go.uber.org/zap/zapcore": with(levels, map[string]string{
		"Level": "LogLevel", "LevelEnabler": "LevelEnabler",
		"TimeEncoder": "TimeEncoder", "TimeEncoderOfLayout": "TimeEncoderOfLayout",
		"EpochTimeEncoder": "EpochTimeEncoder", "EpochMillisTimeEncoder": "EpochMillisTimeEncoder", "EpochNanosTimeEncoder": "EpochNanosTimeEncoder",
		"ISO8601TimeEncoder": "ISO8601TimeEncoder", "RFC3339TimeEncoder": "RFC3339TimeEncoder", "RFC3339NanoTimeEncoder": "RFC3339NanoTimeEncoder",
		"LevelEncoder": "LevelEncoder", "LowercaseLevelEncoder": "LowercaseLevelEncoder", "LowercaseColorLevelEncoder": "LowercaseColorLevelEncoder",
		"CapitalLevelEncoder": "CapitalLevelEncoder", "CapitalColorLevelEncoder": "CapitalColorLevelEncoder",
		"EncoderConfig": "EncoderConfig",
	}),
}

var levels = map[string]string{"DebugLevel": "DebugLevel", "InfoLevel": "InfoLevel", "WarnLevel": "WarnLevel", "ErrorLevel": "ErrorLevel",
	"DPanicLevel": "DPanicLevel", "PanicLevel": "PanicLevel", "FatalLevel": "FatalLevel"}

func with(a, b map[string]string) map[string]string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

const zapTypes = "the options have no types of go.uber.org/zap: JSONEncoder and ConsoleEncoder take EncoderConfigOptions; " +
	"or create the logger with zap itself and zapr, and pass it to SetLogger"

const newQueue = "remove it: the queue has priorities, RateLimiter and Group"

const noPackage = "the framework has no such package: the import stays"

//go:embed names.txt
var namesText string

// A target is a package of the framework.
type target struct {
	name     string // of the package
	exported map[string]bool
}

// targets are the packages of the framework, by path without the module.
var targets = sync.OnceValue(func() map[string]target {
	all := map[string]target{}
	for line := range strings.Lines(namesText) {
		path, names, _ := strings.Cut(strings.TrimSpace(line), ": ")
		words := strings.Fields(names)
		t := target{name: words[0], exported: map[string]bool{}}
		for _, name := range words[1:] {
			t.exported[name] = true
		}
		all[path] = t
	}
	return all
})
