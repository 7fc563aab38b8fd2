// An OpenID Connect provider with one user, which asks whether the user wants to log in.
import { execFile } from 'node:child_process'
import { createHash, generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

export async function startProvider(email) {
  const dir = mkdtempSync(join(tmpdir(), 'kapok-provider-'))
  const certificate = join(dir, 'tls.crt')
  await promisify(execFile)('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', join(dir, 'tls.key'), '-out', certificate,
    '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'])
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const encode = value => Buffer.from(JSON.stringify(value)).toString('base64url')
  const codes = new Map()
  const answers = {
    '/.well-known/openid-configuration': () => ({
      issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token`, jwks_uri: `${issuer}/keys`,
      response_types_supported: ['code'], subject_types_supported: ['public'], id_token_signing_alg_values_supported: ['RS256'],
    }),
    '/keys': () => ({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256', use: 'sig' }] }),
    '/token': query => {
      const asked = codes.get(query.get('code'))
      codes.delete(query.get('code'))
      if (!asked || createHash('sha256').update(query.get('code_verifier')).digest('base64url') !== asked.get('code_challenge')) return { error: 'invalid_grant' }
      const now = Math.floor(Date.now() / 1000)
      const claims = { iss: issuer, aud: asked.get('client_id'), sub: '1', email, email_verified: true, nonce: asked.get('nonce'), iat: now, exp: now + 600 }
      const content = `${encode({ alg: 'RS256', kid: 'one' })}.${encode(claims)}`
      return { access_token: 'unused', token_type: 'Bearer', id_token: `${content}.${sign('sha256', content, privateKey).toString('base64url')}` }
    },
  }
  const server = createServer({ key: readFileSync(join(dir, 'tls.key')), cert: readFileSync(certificate) }, async (request, response) => {
    const url = new URL(request.url, issuer)
    if (url.pathname === '/authorize') {
      const code = randomUUID()
      codes.set(code, url.searchParams)
      const back = new URL(url.searchParams.get('redirect_uri'))
      back.searchParams.set('state', url.searchParams.get('state'))
      const link = (name, text, value) => {
        const to = new URL(back)
        to.searchParams.set(name, value)
        return `<p><a href="${to.href.replaceAll('&', '&amp;')}">${text}</a></p>`
      }
      response.setHeader('Content-Type', 'text/html')
      response.end(`<!doctype html><title>Login</title>${link('code', `Continue as ${email}`, code)}${link('error', 'Cancel', 'access_denied')}`)
      return
    }
    let body = ''
    for await (const part of request) body += part
    const answer = answers[url.pathname]?.(new URLSearchParams(body))
    response.writeHead(!answer ? 404 : answer.error ? 400 : 200, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify(answer ?? {}))
  })
  await new Promise(resolve => server.listen(0, 'localhost', resolve))
  const issuer = `https://localhost:${server.address().port}`
  return { issuer, certificate, stop: () => { server.closeAllConnections(); server.close(); rmSync(dir, { recursive: true, force: true }) } }
}
