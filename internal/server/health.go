package server

import (
	"errors"
	"net/http"
	"slices"

	"github.com/kapok-dev/kapok/internal/endpoint"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/encryption"
)

// A step is a part of the start, by the name of its health check in kube-apiserver, where it is a
// hook that runs after the start, and the check fails until the hook has finished.
type step string

const (
	admissionStep       step = "poststarthook/start-apiserver-admission-initializer"
	informersStep       step = "poststarthook/generic-apiserver-start-informers"
	fairStep            step = "poststarthook/priority-and-fairness-config-consumer"
	fairFilterStep      step = "poststarthook/priority-and-fairness-filter"
	unfairStep          step = "poststarthook/max-in-flight-filter"
	kindsInformersStep  step = "poststarthook/start-apiextensions-informers"
	kindsStep           step = "poststarthook/start-apiextensions-controllers"
	kindsSyncedStep     step = "poststarthook/crd-informer-synced"
	namespacesStep      step = "poststarthook/start-system-namespaces-controller"
	proxyingStep        step = "poststarthook/start-cluster-authentication-info-controller"
	trackingStep        step = "poststarthook/start-legacy-token-tracking-controller"
	rolesStep           step = "poststarthook/rbac/bootstrap-roles"
	prioritiesStep      step = "poststarthook/scheduling/bootstrap-system-priority-classes"
	fairConfigStep      step = "poststarthook/priority-and-fairness-config-producer"
	serviceStep         step = "poststarthook/bootstrap-controller"
	claimsStep          step = "poststarthook/start-service-ip-repair-controllers"
	addressesStep       step = "poststarthook/start-kubernetes-service-cidr-controller"
	othersStep          step = "poststarthook/start-kube-aggregator-informers"
	othersAvailableStep step = "poststarthook/apiservice-status-local-available-controller"
	othersReachedStep   step = "poststarthook/apiservice-status-remote-available-controller"
	othersServedStep    step = "poststarthook/apiservice-registration-controller"
	othersListedStep    step = "poststarthook/apiservice-discovery-controller"
	registeringStep     step = "poststarthook/kube-apiserver-autoregistration"
	registeredStep      step = "autoregister-completion"
	documentsStep       step = "poststarthook/apiservice-openapi-controller"
	documentsV3Step     step = "poststarthook/apiservice-openapiv3-controller"
)

// steps returns the steps of a server in the order in which kube-apiserver shows them.
func (o *Options) steps() []step {
	flow := []step{fairStep, fairFilterStep}
	if o.Fairness.Unfair {
		flow = []step{unfairStep}
	}
	return slices.Concat([]step{admissionStep, informersStep}, flow, []step{
		kindsInformersStep, kindsStep, kindsSyncedStep, namespacesStep, proxyingStep, trackingStep, claimsStep, rolesStep, prioritiesStep, fairConfigStep,
		serviceStep, addressesStep, othersStep, othersAvailableStep, othersReachedStep, othersServedStep, othersListedStep,
		registeringStep, registeredStep, documentsStep, documentsV3Step,
	})
}

// errNotFinished is the error of a health check before its step is done, in kube-apiserver's words.
var errNotFinished = errors.New("not finished")

// progress has the steps that are done. It changes only before the first request.
type progress map[step]bool

func (p progress) done(steps ...step) {
	for _, s := range steps {
		p[s] = true
	}
}

// checks returns the health checks of a server: those of kube-apiserver that apply to Kapok, in its
// order. sealer is nil if objects are not encrypted.
func (p progress) checks(o *Options, j interface{ Health() error }, sealer *encryption.Config) []endpoint.Check {
	all := []endpoint.Check{
		// A journal that does not accept writes recovers automatically, and objects can be read until
		// then.
		{Name: "etcd", Run: func(*http.Request) error {
			if err := j.Health(); errors.Is(err, journal.ErrClosed) {
				return err
			}
			return nil
		}},
		{Name: "etcd-readiness", Run: func(*http.Request) error { return j.Health() }, ReadyOnly: true},
	}
	if sealer != nil {
		all = append(all, endpoint.Check{Name: "kms-providers", Run: func(*http.Request) error { return sealer.Health() }, NotLive: true})
	}
	all = append(all, endpoint.Check{Name: "informer-sync", Run: p.finished(informersStep, kindsSyncedStep, othersStep), ReadyOnly: true})
	for _, s := range o.steps() {
		all = append(all, endpoint.Check{Name: string(s), Run: p.finished(s)})
	}
	return all
}

func (p progress) finished(steps ...step) func(*http.Request) error {
	return func(*http.Request) error {
		for _, s := range steps {
			if !p[s] {
				return errNotFinished
			}
		}
		return nil
	}
}
