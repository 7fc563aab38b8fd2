package kubectl

// data is the data directory of the instance default.
const data = "~/.local/share/kapok"

// foos defines the kind Foo, which pages on webhooks take as an example.
const foos = `
kubectl create -f - <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: foos, kind: Foo}
  versions:
  - {name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
END
kubectl wait --for=condition=Established crd/foos.example.com
`

// unfollowed are the pages that have commands and are not in guides, and why.
var unfollowed = map[string]string{
	"getting-started.zh-CN.md":     "test/house compares it with getting-started.md",
	"installing.md":                "needs a release, the Internet and root",
	"releasing.md":                 "makes a release; .ci/run has the section release",
	"replicas.md":                  "test/etcd/replicas follows it",
	"testing.md":                   "needs the Internet",
	"toolkit.md":                   "the toolkit has tests of its own",
	"reading/core-types.md":        "TestDocuments follows it",
	"reading/custom-resources.md":  "TestDocuments follows it",
	"reading/kubebuilder.md":       "the toolkit has tests of its own",
	"reading/sample-controller.md": "TestDocuments follows it",
}

// guides are the pages whose commands run. Ports 6443 and 7443 are replaced by free ones. $ROOT is
// the clone.
var guides = []guide{
	{
		page:      "access.md",
		elsewhere: []string{"Try it", "Custom resources"},
		before: `kapok up
			kubectl create namespace shop
			kubectl create secret generic db-password -n shop
			kubectl create -f - <<END
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop}
spec: {nodeName: worker-1, containers: [{name: db, image: db, envFrom: [{secretRef: {name: db-password}}]}]}
END
			`,
		after: `[ "$(kubectl auth can-i get /kapok/v1/snapshot --as backup)" = yes ]`,
	},
	{
		page:    "admission-files.md",
		files:   map[string]string{"# admission.yaml": "admission.yaml", "# policies.yaml": "policies.yaml"},
		replace: [][2]string{{"kapok up", "mkdir policies\ncp policies.yaml policies\nsed \"s,/etc/kapok,$PWD,\" admission.yaml >~/admission.yaml\nkapok up"}},
		after:   `kubectl get validatingadmissionpolicies 2>&1 | grep 'No resources found'`,
	},
	{
		page:  "admission-plugins.md",
		needs: []string{"openssl"},
		files: map[string]string{"# admission.yaml": "admission.yaml", "# images.yaml": "images.yaml", "# images.kubeconfig": "images.kubeconfig"},
		skip:  map[string]string{`pods "web" is forbidden: image policy webhook backend denied one or more images: not signed`: "needs the webhook"},
		after: `
			interrupt up
			openssl req -x509 -newkey rsa:2048 -nodes -keyout kapok.key -out kapok.crt -subj /CN=kapok
			cp kapok.crt images-ca.crt
			sed -i.bak "s,/etc/kapok/,$PWD/,g; s,images.example.com,localhost:1," images.yaml images.kubeconfig
			kapok up --enable-admission-plugins ImagePolicyWebhook --admission-control-config-file images.yaml
			kubectl run signed --image nginx 2>error || true
			grep 'pods "signed" is forbidden: Post "https://localhost:1/review?timeout=30s": .*connection refused' error`,
	},
	{
		page:    "admission-webhooks.md",
		needs:   []string{"openssl"},
		before:  "kapok up" + foos,
		files:   map[string]string{"apiVersion: admissionregistration.k8s.io/v1": "webhooks.yaml"},
		replace: [][2]string{{"localhost:9443", "localhost:1"}}, // where no program listens
		after: `
			openssl req -x509 -newkey rsa:2048 -nodes -keyout tls.key -out tls.crt -subj /CN=localhost
			sed "s|caBundle: [.]*|caBundle: $(base64 < tls.crt | tr -d '\n')|" webhooks.yaml | kubectl create -f -
			printf 'apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: a}\n' | kubectl create -f - 2>error || true
			grep 'failed calling webhook "foos.example.com": failed to call webhook: Post "https://localhost:1/.*connection refused' error`,
	},
	{
		page:  "audit.md",
		needs: []string{"jq"},
		files: map[string]string{"apiVersion: audit.k8s.io/v1": "policy.yaml"},
		replace: [][2]string{
			{"tail -f audit.log", "kubectl create configmap a\nuntil grep -q configmaps audit.log; do sleep 0.05; done\ntail -n +1 audit.log"},
			{"@tsv'", "@tsv' >table"},
		},
		after: `grep $'^kubernetes-admin\tcreate\t/api/v1/namespaces/default/configmaps.*\t201$' table`,
	},
	{
		page:  "backup.md",
		needs: []string{"curl", "sha256sum"},
		before: `kapok up --detach
			kapok up --data-dir ~/srv --listen 127.0.0.1:0`,
		skip: map[string]string{`0 3 * * *  kapok snapshot save /backup/kapok-$(date +\%F).snapshot`: "a line for cron"},
		replace: [][2]string{
			{"kapok stop\n", "interrupt up\nkapok stop\n"},
			{"kapok snapshot save backup.snapshot                                         # the", "interrupt up\nkapok up --detach\nkapok up --data-dir ~/srv --listen 127.0.0.1:0\nkapok snapshot save backup.snapshot # the"},
			{"kapok snapshot save backup.snapshot --data-dir", "interrupt up\nkapok snapshot save backup.snapshot --data-dir"},
			{"# the same", "# the same\n[ $(tail -n 1 backup.snapshot | cut -d' ' -f2) = $(head -c -73 backup.snapshot | sha256sum | cut -d' ' -f1) ]"},
			{"kapok snapshot restore backup.snapshot --data-dir ./restored\ncp", "rm -r restored\nkapok snapshot restore backup.snapshot --data-dir ./restored\nkapok stop\ncp"},
			{"kapok snapshot save rest.snapshot", "interrupt up\nrm -r restored\nkapok snapshot save rest.snapshot"},
			{"/srv/kapok", "~/srv"},
			{"kapok doctor", "interrupt up; kapok up --detach >/dev/null; kapok doctor"},
		},
	},
	{
		page:  "configuration.md",
		files: map[string]string{"# server.yaml": "server.yaml"},
		before: `unset KAPOK_LISTEN
			echo 'ExecStart=/usr/bin/kube-apiserver --etcd-servers=http://127.0.0.1:2379 --authorization-mode=Node,RBAC --service-cluster-ip-range=10.96.0.0/12' >kube-apiserver.yaml`,
		replace: [][2]string{{"/etc/kubernetes/manifests/kube-apiserver.yaml", "kube-apiserver.yaml"}},
		after:   `grep -q 'store: etcd://127.0.0.1:2379' server.yaml`,
	},
	{
		page:      "console.md",
		elsewhere: []string{"Log in by OpenID Connect"}, // test/console/login.test.js
		needs:     []string{"curl"},
		skip:      map[string]string{"console  https://127.0.0.1:6443/console?token=...": "output"},
		replace:   [][2]string{{"kapok console", "grep -q '^  console  https://127.0.0.1:6443/console?token=' $SCRATCH/up.log\nkapok console --open=false"}},
		after:     `curl --fail --silent --location --cookie-jar cookies "$(grep -o 'http://.*' $SCRATCH/console.log)" | grep -q '<title>'`,
	},
	{
		page: "controllers.md",
		replace: [][2]string{
			{"kapok controllers --kubeconfig FILE        #", "kapok controllers --kubeconfig " + data + "/kubeconfig #"},
			{"kapok up --store etcd://HOST:PORT,... --shard-controllers", "# needs etcd: kapok up --store"},
			{"kapok controllers --kubeconfig FILE --shard", "kapok controllers --kubeconfig " + data + "/kubeconfig --shard"},
			{"kapok why", "kubectl create deployment web --image=web\nuntil kubectl get pods -o name | grep web; do sleep 0.1; done\nkapok why"},
		},
	},
	{
		page:   "conversion-webhooks.md",
		needs:  []string{"openssl"},
		before: "kapok up" + foos,
		skip: map[string]string{
			`{"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",`: "a request and its response; TestWebhooksOfReadme has a webhook",
			"kubectl get foos -A -o json | kubectl replace -f -":                    "needs the webhook",
		},
	},
	{
		page: "convert.md",
		before: `manifests=$ROOT/test/kubectl/testdata/manifests
			mkdir -p ~/.local/bin manifests
			sed s,apps/v1beta1,extensions/v1beta1, $manifests/deployment-v1beta1.yaml | tee old.yaml manifests/a.yaml >deployment.yaml
			cp $manifests/at-crd-versions.yaml .
			printf 'apiVersion: cnat.programming-kubernetes.info/v1alpha1\nkind: At\nmetadata: {name: a}\n' >at.yaml`,
		skip: map[string]string{
			"type: object": "a part of a result",
			"Warning: apps/v1beta1 Deployment is deprecated in v1.8+, unavailable in v1.16+; use apps/v1 Deployment": "output, which is checked at the end",
		},
		after: `grep -q 'apiVersion: apps/v1$' new.yaml
			kubectl create -f $manifests/deployment-v1beta1.yaml 2>&1 |
				grep -x 'Warning: apps/v1beta1 Deployment is deprecated in v1.8+, unavailable in v1.16+; use apps/v1 Deployment'`,
	},
	{
		page:   "embedding.md",
		before: "cd $ROOT",
	},
	{
		page: "encryption.md",
		skip: map[string]string{
			"etcdctl get /registry/secrets/default/look | head -c 60": "needs etcd",
			"- secretbox:": "a part of a file",
			"go run ./test/kmsplugin/serve /tmp/kms.sock first &": "runs until it is interrupted; test/server has a test with this plugin",
			"providers:": "a part of a file",
		},
		replace: [][2]string{
			{"kapok up --encryption-provider-config encryption.yaml", "kapok up --encryption-provider-config encryption.yaml\nkubectl create secret generic first"},
			{"# prints nothing", "&& exit 1 || true"},
		},
	},
	{
		page:      "extension-servers.md",
		elsewhere: []string{"Register a server", "When the server is unavailable"},
		before: `kapok up
			kubectl create namespace wardle`,
		after: `[ "$(kubectl auth can-i create tokenreviews.authentication.k8s.io --as system:serviceaccount:wardle:apiserver)" = yes ]`,
	},
	{
		page:  "emulated-version.md",
		after: `kubectl get --raw /version | grep '"emulationMinor": "35"'`,
	},
	{
		page:  "feature-gates.md",
		after: `kubectl get --raw /flagz 2>&1 | grep NotFound`,
	},
	{
		page:    "flags.md",
		replace: [][2]string{{"NAME", "demo"}},
		after:   `kapok status demo`,
	},
	{
		page:  "from-controller-runtime.md",
		files: map[string]string{"package controllers": "copy.go"},
		before: `cat >go.mod <<END
module example.com/copy
go 1.26.0
END
			cp $ROOT/go.sum .
			go mod edit -require=sigs.k8s.io/controller-runtime@v0.25.0`,
		skip: map[string]string{"rules:": "a part of a file"},
		replace: [][2]string{
			{"go get github.com/kapok-dev/kapok", "go mod edit -require=github.com/kapok-dev/kapok@v0.0.0 -replace=github.com/kapok-dev/kapok=$ROOT"},
		},
		after: `go vet ./...
			! grep sigs.k8s.io/controller-runtime copy.go`,
	},
	{
		page:      "getting-started.md",
		needs:     []string{"curl"},
		elsewhere: []string{"Your first custom resource", "Built-in kinds"},
		replace: [][2]string{
			{"go run ./cmd/kapok", "kapok"},
			{"DIR", data},
		},
	},
	{
		page: "history.md",
		before: `paint() {
				kubectl create configmap settings --from-literal=mood=calm
				first=$(kubectl get configmap settings -o jsonpath='{.metadata.resourceVersion}')
				kubectl patch configmap settings --type=merge --field-manager=painter -p '{"data": {"mood": "wild", "hour": "1"}}'
				kubectl label configmap settings colour=red
			}
			kapok up
			paint`,
		replace: [][2]string{
			{"--revision 209", `--revision "$first"`},
			{"--from 209", `--from "$first"`},
			{"--to 209", `--to "$first"`},
			{"# write the state of that revision again", `&& [ "$(kubectl get configmap settings -o jsonpath='{.data.mood}')" = calm ]`},
			{"kubectl get revisions", "foreground kapok up fresh; paint >/dev/null; kubectl get revisions"},
			{"configmaps:settings:209", `configmaps:settings:$first`},
		},
	},
	{
		page:   "instances.md",
		before: "unset KAPOK_LISTEN",
		after:  `kapok list -o json | grep -q '"state": "running"'`,
	},
	{
		page: "login.md",
		elsewhere: []string{
			"A user with a certificate", "A certificate by request",
			"A provider of tokens", // TestFilesOfDocuments
		},
		before: "kapok up",
	},
	{
		page: "nodes.md",
		before: `cat >pod.yaml <<END
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: web}]}
END`,
		files: map[string]string{"apiVersion: kwok.x-k8s.io/v1alpha1": "answers.yaml"},
		skip: map[string]string{
			"metadata:": "a part of a file",
			"--client-ca-file=DATA_DIR/pki/ca.crt --authentication-token-webhook --authorization-mode=Webhook": "flags of a kubelet",
		},
		replace: [][2]string{
			{"git clone https://github.com/kubernetes-sigs/kwok", "ln -s \"$(go list -C $ROOT -m -f '{{.Dir}}' sigs.k8s.io/kwok)\" kwok"},
			{"kubectl top pods", "kubectl scale deployment web --replicas=1 >&2; kubectl top pods"},
			{"kapok up --nodes 3 --stages answers.yaml", "kubectl delete stages --all; foreground kapok up --nodes 3 --stages answers.yaml; kubectl create -f pod.yaml; kubectl wait --for=condition=Ready pod/web"},
		},
	},
	{
		page:  "processes.md",
		needs: []string{"curl", "python3"},
		files: map[string]string{"apiVersion: node.kapok.dev/v1alpha1": "mapping.yaml"},
		before: `port=:7443 port=${port#:}
			mkdir bin
			printf '#!/bin/sh\nexec python3 -m http.server '$port' --bind "$HOST"\n' >bin/web
			chmod +x bin/web`,
		skip: map[string]string{
			"$ ko build --push=false --tarball web.tar ./cmd/web":                         "needs ko",
			"$ kapok up --node process --isolate":                                         "needs user namespaces",
			"$ kubectl exec deployment/web -- getent hosts web.default.svc.cluster.local": "needs user namespaces",
		},
		replace: [][2]string{
			{"--node process", "--node process --node-name laptop"},
			{"kubectl logs", "kubectl rollout status deployment web; kubectl logs"},
			{"8080", "$port"},
			{"curl ", "curl --silent --fail --retry 30 --retry-connrefused --retry-delay 1 "},
		},
		after: `kubectl apply -f mapping.yaml
			kapok image list | grep -E '^nginx +./bin/nginx +nginx$'`,
	},
	{
		page:   "performance.md",
		before: "kapok up",
		skip: map[string]string{
			"test/oracle/assets /tmp/real": "builds kube-apiserver",
			"kapok generate deepcopy:headerFile=header.txt lifecycle:headerFile=header.txt ./...": "needs copies of modules",
		},
		replace: [][2]string{
			// TestCommandsOfTests of test/house checks that these exist.
			{"go test", ": go test"},
			{"cd test/", ": cd test/"},
			{"--duration 6s", "--duration 100ms"},
			{"kapok bench --context other", ": --context other"}, // needs another cluster
			{"kapok bench", "kapok bench --scale small --duration 100ms"},
			{"FILE", data + "/kubeconfig"},
			{"PID", "${running[up]}"},
			{"--fsync-dir DIR", "--fsync-dir ."},
			{"127.0.0.1:7443 &", "127.0.0.1:7443"},
			{"$!", "${running[up]}"},
			{"/var/tmp/bench", "~/bench"},
		},
	},
	{
		page:   "real-nodes.md",
		before: `DATA_DIR=` + data,
		replace: [][2]string{
			{"DATA_DIR", "$DATA_DIR"},
			{"ssh root@MACHINE sh", "bash -n"},
			{"--ttl 1h", "--ttl 1h | tee token"},
			{"delete ID", `delete "$(grep -oE '[a-z0-9]{6}\.[a-z0-9]{16}' token | cut -d. -f1)"`},
		},
		after: `grep -q /var/lib/kubelet/config.yaml join.sh`,
	},
	{
		page:  "scheduler.md",
		files: map[string]string{"apiVersion: kubescheduler.config.k8s.io/v1": "scheduler.yaml"},
		after: `kapok up --nodes 3 --scheduler-config scheduler.yaml
			kubectl create -f - <<END
apiVersion: v1
kind: Pod
metadata: {name: packed}
spec: {schedulerName: packing, containers: [{name: web, image: web}]}
END
			kubectl wait --for=condition=PodScheduled pod/packed`,
	},
	{
		page:   "service.md",
		before: "kapok up",
		files: map[string]string{
			"# /usr/lib/systemd/system/kapok.service": "kapok.service",
			"# /etc/default/kapok":                    "settings",
			"apiVersion: apiserver.config.k8s.io/v1":  "tracing.yaml",
		},
		skip: map[string]string{
			"systemctl enable --now kapok":       "needs systemd",
			"# /etc/systemd/system/kapok.socket": "needs systemd; cmd/kapok has tests of socket activation",
		},
		replace: [][2]string{
			{"/var/lib/kapok", "lib"},
			{"seconds=10", "seconds=1"},
			{"go tool pprof -top cpu.pprof", "gzip -t cpu.pprof # go builds pprof at its first use"},
		},
		after: `grep -q '^# HELP apiserver_request_total' <(kubectl get --raw /metrics)
			set -a
			. ./settings
			foreground $(sed -n 's,^ExecStart=/usr/bin/,,p' kapok.service)
			kubectl --tls-server-name api.example.com get namespaces`,
	},
	{
		page:   "upgrading.md",
		before: "kapok up --detach",
		skip: map[string]string{
			"kapok: open journal in /var/lib/kapok/journal: version of HEAD 2 is not supported, this version of kapok reads 1: the store was written by a newer": "output",
		},
		replace: [][2]string{
			{"sudo install kapok-v0.2.0-linux-amd64/kapok /usr/local/bin/kapok", "# needs root"},
			{"sudo install kapok-v0.1.0-linux-amd64/kapok /usr/local/bin/kapok", "# needs root"},
			{"kapok snapshot restore", "kapok stop # the old version has not started\nkapok snapshot restore"},
			{"DATA_DIR", data},
		},
	},
}
