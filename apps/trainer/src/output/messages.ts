/** What this program says beside its output. */
import { createMessages } from '@oddflow/program'

export const { warn, complain, note } = createMessages('oddflow')
