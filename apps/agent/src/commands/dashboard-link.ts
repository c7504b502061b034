/** `oddflow-agent dashboard-link`: a link to a running agent's dashboard that signs in once, within 5 minutes. */
import { askFurther, ControlError } from '../devices/control-socket.js'
import { type StateOptions, stateOf } from './state-of.js'

export async function dashboardLink(options: StateOptions): Promise<void> {
  const state = await stateOf(options)
  const answer = (await askFurther(state, '/dashboard')) as { link: string } | null
  if (answer === null) {
    throw new ControlError(
      'control.nothing',
      `${state}: no agent with a dashboard is running; start it first`,
    )
  }
  process.stdout.write(`${answer.link}\n`)
}
