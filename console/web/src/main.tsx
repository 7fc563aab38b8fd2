import { render } from 'preact'
import { App } from './app'
import { redeemLink } from './session'
import './style.css'

await redeemLink()
render(<App />, document.getElementById('app')!)
