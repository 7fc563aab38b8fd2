package tour

// A Step is one thing to see: a text, a command of kubectl, and what it prints.
type Step struct {
	Title string
	Text  string // why, in lines of at most 76 columns
	// File and Content are a file to write before the command; "" if there is none.
	File, Content string
	Command       []string // arguments of kubectl
	// Fails says that the command fails: its error is what the step shows.
	Fails bool
	// During is a second command, which runs while the first one watches; the first one ends after it
	// has printed Until.
	During []string
	Until  string
	// Wait is a command that ends when Command can show what it should; it is not shown.
	Wait []string
}

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cakes.bakery.example.com}
spec:
  group: bakery.example.com
  scope: Namespaced
  names: {kind: Cake, plural: cakes, singular: cake}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Flavour, type: string, jsonPath: .spec.flavour}
    - {name: Layers, type: integer, jsonPath: .spec.layers}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [flavour]
            properties:
              flavour:
                type: string
                description: What the cake tastes of.
                enum: [chocolate, nut, plum]
              layers: {type: integer, minimum: 1, maximum: 9, default: 2}
`

const cake = `apiVersion: bakery.example.com/v1
kind: Cake
metadata: {name: sacher}
spec: {flavour: chocolate}
`

const badCake = `apiVersion: bakery.example.com/v1
kind: Cake
metadata: {name: tower}
spec: {flavour: chalk, layers: 40}
`

// Steps returns the steps in their order.
func Steps() []Step {
	return []Step{
		{
			Title: "A kind of your own",
			Text: "An API server knows kinds: Pod, Service, and those that you define. This\n" +
				"CustomResourceDefinition adds the kind Cake, with a schema.",
			File: "definition.yaml", Content: definition,
			Command: []string{"apply", "-f", "definition.yaml"},
		},
		{
			Title: "An object",
			Text:  "An object says what should be. The server fills in what the schema has as a\ndefault: two layers.",
			File:  "cake.yaml", Content: cake,
			Wait:    []string{"wait", "--for=condition=Established", "crd/cakes.bakery.example.com"},
			Command: []string{"apply", "-f", "cake.yaml"},
		},
		{
			Title: "Read it",
			Text:  "The columns come from the definition.", Command: []string{"get", "cakes"},
		},
		{
			Title: "What the schema rejects",
			Text:  "The server stores nothing that the schema does not allow, and says why.",
			File:  "bad-cake.yaml", Content: badCake, Fails: true,
			Command: []string{"apply", "-f", "bad-cake.yaml"},
		},
		{
			Title:   "Documentation, from the schema",
			Text:    "kubectl reads what it knows about a kind from the server.",
			Command: []string{"explain", "cake.spec"},
		},
		{
			Title: "Watch, and patch",
			Text: "A watch reports each change as it happens: all of Kubernetes is built on it.\n" +
				"While the first command watches, the second one changes the cake.",
			Command: []string{"get", "cakes", "--watch"},
			During:  []string{"patch", "cake", "sacher", "--type=merge", "-p", `{"spec":{"layers":5}}`},
			Until:   "5",
		},
		{
			Title: "Controllers act",
			Text: "Controllers watch too, and make what is like what should be. Of a Deployment,\n" +
				"they make a ReplicaSet, and of that, Pods. The nodes here are simulated.",
			Command: []string{"create", "deployment", "web", "--image=nginx:1.28", "--replicas=3"},
		},
		{
			Title: "See what they did", Text: "Controllers, the scheduler and the nodes have done all of this.",
			Wait:    []string{"rollout", "status", "deployment/web"},
			Command: []string{"get", "deployments,replicasets,pods"},
		},
		{
			Title: "Roll out", Text: "A new image: a second ReplicaSet grows while the first one shrinks.",
			Command: []string{"set", "image", "deployment/web", "nginx=nginx:1.29"},
		},
		{
			Title: "Roll back", Text: "The Deployment still has its first revision.",
			Wait:    []string{"rollout", "status", "deployment/web"},
			Command: []string{"rollout", "undo", "deployment/web"},
		},
		{
			Title:   "The image is the first one again",
			Text:    "",
			Wait:    []string{"rollout", "status", "deployment/web"},
			Command: []string{"get", "deployment", "web", "-o", "wide"},
		},
	}
}
