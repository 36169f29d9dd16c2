/* Calls an unmodified server of SunRPC, which the host's rpcbind knows: `onc HOST TRANSPORT`. */
#include "calc.h"
#include <stdio.h>

int main(int count, char **arguments)
{
	bool_t onc = TRUE;
	const uint32_t groups[] = { 4, 24 };
	frpc_auth_sys user = { "desk", 4711, 100, groups, 2 };
	numbers both = { 2, 3 };
	frpc_handle *calc = count > 2 ? frpc_createhandle(arguments[1], CALC_PROGRAM, CALC_V1, arguments[2]) : NULL;
	if (!calc || !frpc_control(calc, FRPC_SET_ONC, &onc) || !frpc_control(calc, FRPC_SET_AUTH_SYS, &user))
		return 1;
	int *sum = calc_add_1(&both, calc);
	if (sum == NULL) {
		frpc_perror(calc, "onc");
		return 1;
	}
	printf("2 + 3 = %d over %s\n", *sum, arguments[2]);
	frpc_destroyhandle(calc);
	return 0;
}
