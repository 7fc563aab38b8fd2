// A form made from the schema of a kind. It has no state of its own: what it shows is in the text beside
// it, and each input changes that text.
import { createContext } from 'preact'
import { useContext, useId, useState } from 'preact/hooks'
import type { Json } from './api'
import type { Problem } from './check'
import { shapeOf, textOfPath, type KindSchema, type Path, type Schema } from './schema'
import { t } from './text'

type Tree = { [key: string]: Json }
const isTree = (v: Json | undefined): v is Tree => typeof v === 'object' && v !== null && !Array.isArray(v)

interface Shared {
  kind: KindSchema
  writable: boolean
  problems: Map<string, string[]>
  set: (path: Path, value: Json | undefined) => void
}
const Form = createContext<Shared>(null!)

export interface FormProps { kind: KindSchema; object: Tree; writable: boolean; problems: Problem[]; set: Shared['set'] }

export function ObjectForm({ kind, object, writable, problems, set }: FormProps) {
  const byPath = new Map<string, string[]>()
  for (const p of problems) byPath.set(textOfPath(p.path), [...(byPath.get(textOfPath(p.path)) ?? []), p.message])
  return (
    <Form.Provider value={{ kind, writable, problems: byPath, set }}>
      <form class="form" aria-label={t('form')} onSubmit={e => e.preventDefault()}>
        <Fields schema={kind.root} value={object} path={[]} hidden={['apiVersion', 'kind']} />
      </form>
    </Form.Provider>
  )
}

/** Fields of the metadata that a user writes. */
const ofMetadata = ['name', 'generateName', 'namespace', 'labels', 'annotations', 'finalizers', 'ownerReferences']

/** The fields of an object that it has or must have, and a choice of the others. */
function Fields({ schema, value, path, hidden = [] }: { schema: Schema; value: Tree; path: Path; hidden?: string[] }) {
  const { kind, writable, set } = useContext(Form)
  const isMetadata = path.length === 1 && path[0] === 'metadata'
  const known = Object.keys(schema.properties ?? {}).filter(k => !hidden.includes(k) && (!isMetadata || ofMetadata.includes(k)))
  // Objects and templates have a spec.
  const always = [...(schema.required ?? []), ...(known.includes('metadata') ? ['metadata', 'spec'] : [])]
  if (isMetadata) always.push('name', 'labels')
  const shown = known.filter(k => k in value || always.includes(k)).sort((a, b) => rank(a) - rank(b))
  const others = known.filter(k => !shown.includes(k)).sort()
  const rules = schema['x-kubernetes-validations']?.filter(rule => rule.message)
  return (
    <>
      {rules?.map(rule => <p class="note" key={rule.rule}>{rule.message}</p>)}
      {shown.map(k => <Field key={k} name={k} schema={kind.below(schema, k)!} value={value[k]} path={[...path, k]} required={schema.required?.includes(k)} />)}
      {writable && others.length > 0 && (
        <Add label={t('form.add')} names={others} docs={k => kind.below(schema, k)?.description} add={k => set([...path, k], kind.first(kind.below(schema, k)!))} />
      )}
    </>
  )
}

const first = ['apiVersion', 'kind', 'metadata', 'name', 'namespace', 'spec']
const rank = (name: string) => (first.indexOf(name) + 1 || first.length + 1)

function Add({ label, names, docs, add }: { label: string; names: string[]; docs: (name: string) => string | undefined; add: (name: string) => void }) {
  return (
    <select class="add" aria-label={label} value="" onChange={e => { const name = e.currentTarget.value; e.currentTarget.value = ''; if (name) add(name) }}>
      <option value="">{label}</option>
      {names.map(name => <option key={name} value={name} title={docs(name)}>{name}</option>)}
    </select>
  )
}

interface FieldProps { name: string; schema: Schema; value: Json | undefined; path: Path; required?: boolean }

function Field(props: FieldProps) {
  const { name, schema, value, path, required } = props
  const { kind, writable, set, problems } = useContext(Form)
  const id = useId()
  const shape = shapeOf(schema)
  const remove = writable && value !== undefined && !required && (
    <button type="button" class="icon" aria-label={t('form.remove', { name: textOfPath(path) })} onClick={() => set(path, undefined)}>×</button>
  )
  const messages = problems.get(textOfPath(path)) ?? []
  const notes = <Notes id={id} text={schema.description} messages={messages} />
  const title = <>{name}{required && <span class="must" title={t('form.required')}> *</span>}</>
  if (shape === 'object' || shape === 'map' || shape === 'list') {
    return (
      <fieldset class="nested">
        <legend>{title} {remove}</legend>
        {notes}
        {shape === 'object' && <Fields schema={schema} value={isTree(value) ? value : {}} path={path} />}
        {shape === 'map' && <Entries schema={kind.resolve(schema.additionalProperties as Schema)} value={isTree(value) ? value : {}} path={path} />}
        {shape === 'list' && <Items schema={schema} value={Array.isArray(value) ? value : []} path={path} />}
      </fieldset>
    )
  }
  return (
    <div class="field">
      <label for={id}>{title}</label>
      <Input id={id} described={`${id}-notes`} schema={schema} value={value} path={path} invalid={messages.length > 0} />
      {remove || <span />}
      {notes}
    </div>
  )
}

/** What the schema says of a field, in one line until it is opened, and what is wrong with the field. */
function Notes({ id, text, messages }: { id: string; text?: string; messages: string[] }) {
  const [open, setOpen] = useState(false)
  if (!text && !messages.length) return null
  return (
    <div class="notes" id={`${id}-notes`}>
      {messages.map(m => <p class="bad" key={m}>{m}</p>)}
      {text && <small class={open ? 'open' : ''} onClick={() => setOpen(!open)} title={open ? undefined : text}>{text}</small>}
    </div>
  )
}

/** The values of a map, each with its key. */
function Entries({ schema, value, path }: { schema: Schema; value: Tree; path: Path }) {
  const { kind, writable, set } = useContext(Form)
  const [key, setKey] = useState('')
  const taken = key in value
  const add = () => { if (key && !taken) { set([...path, key], kind.first(schema)); setKey('') } }
  return (
    <>
      {Object.entries(value).map(([k, v]) => <Field key={k} name={k} schema={schema} value={v} path={[...path, k]} />)}
      {writable && (
        <div class="adding">
          <input aria-label={t('form.key', { name: textOfPath(path) })} placeholder={t('form.keyHint')} value={key} onInput={e => setKey(e.currentTarget.value)}
            onKeyDown={e => { if (e.key === 'Enter') { e.preventDefault(); add() } }} />
          <button type="button" disabled={!key || taken} onClick={add}>{t('form.addEntry')}</button>
        </div>
      )}
    </>
  )
}

/** The items of a list, named by their keys if the list has some. */
function Items({ schema, value, path }: { schema: Schema; value: Json[]; path: Path }) {
  const { kind, writable, set } = useContext(Form)
  const item = kind.resolve(schema.items!)
  const keys = schema['x-kubernetes-list-map-keys'] ?? ['name']
  const nameOf = (v: Json, i: number) => (isTree(v) && keys.map(k => v[k]).filter(k => k !== undefined && k !== '').join(' ')) || String(i + 1)
  return (
    <>
      {value.map((v, i) => <Field key={i} name={nameOf(v, i)} schema={item} value={v} path={[...path, i]} />)}
      {writable && <button type="button" class="add" onClick={() => set([...path, value.length], kind.first(item))}>{t('form.addItem', { name: textOfPath(path) })}</button>}
    </>
  )
}

interface InputProps { id: string; described: string; schema: Schema; value: Json | undefined; path: Path; invalid: boolean }

function Input({ id, described, schema, value, path, invalid }: InputProps) {
  const { writable, set } = useContext(Form)
  // A number or other text that is not finished, such as "-", is not in the object yet.
  const [draft, setDraft] = useState<string | null>(null)
  const shape = shapeOf(schema)
  const rest = { id, 'aria-describedby': described, 'aria-invalid': invalid || draft !== null, disabled: !writable }
  const put = (v: Json | undefined) => { setDraft(null); set(path, v) }
  const hint = schema.default === undefined || typeof schema.default === 'object' ? '' : String(schema.default)
  if (shape === 'boolean' || shape === 'choice') {
    const options: Json[] = shape === 'boolean' ? [true, false] : schema.enum!
    const text = value === undefined ? '' : String(value)
    return (
      <select {...rest} value={text} onChange={e => { const chosen = options.find(o => String(o) === e.currentTarget.value); put(chosen) }}>
        <option value="">{hint}</option>
        {options.map(o => <option key={String(o)} value={String(o)}>{String(o)}</option>)}
        {value !== undefined && !options.some(o => String(o) === text) && <option value={text}>{text}</option>}
      </select>
    )
  }
  if (shape === 'integer' || shape === 'number') {
    return (
      <input {...rest} inputMode="decimal" placeholder={hint} value={draft ?? (value === undefined ? '' : String(value))}
        onInput={e => {
          const text = e.currentTarget.value.trim()
          const n = Number(text)
          if (text === '') put(undefined)
          else if (Number.isFinite(n) && /\d$/.test(text)) put(n)
          else setDraft(text)
        }}
        onBlur={() => setDraft(null)} />
    )
  }
  if (shape === 'textOrNumber') {
    return <input {...rest} placeholder={hint} value={value === undefined ? '' : String(value)} onInput={e => { const text = e.currentTarget.value; put(/^-?\d{1,15}$/.test(text) ? Number(text) : text) }} />
  }
  if (shape === 'text') {
    const text = typeof value === 'string' ? value : value === undefined || value === null ? '' : String(value)
    return text.includes('\n') || path.at(-2) === 'data'
      ? <textarea {...rest} rows={Math.min(12, text.split('\n').length + 1)} value={text} onInput={e => put(e.currentTarget.value)} />
      : <input {...rest} placeholder={hint} value={text} onInput={e => put(e.currentTarget.value)} />
  }
  // The schema does not say what is there: JSON, which is YAML too.
  return (
    <textarea {...rest} rows={3} class="code" value={draft ?? (value === undefined ? '' : JSON.stringify(value))}
      onInput={e => {
        const text = e.currentTarget.value
        try { put(text.trim() === '' ? undefined : JSON.parse(text)) } catch { setDraft(text) }
      }}
      onBlur={() => setDraft(null)} />
  )
}
